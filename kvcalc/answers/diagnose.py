"""`kvcalc diagnose`: a start-up log, where the memory went, whether that agrees with the prediction, what to change."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kvcalc.answers.advice import advice
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.logged import Logged, logged
from kvcalc.answers.refused import explained, refusal_advice
from kvcalc.engines import capacity, loaded_weight_bytes
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs import read_log
from kvcalc.engines.logs_facts import LogFacts
from kvcalc.engines.memory import memory_before_cache
from kvcalc.engines.memory_budget import ByteRange, MemoryBudget
from kvcalc.engines.memory_settings import Observed
from kvcalc.errors import KvcalcError
from kvcalc.reports.diagnose import Compared, DiagnoseReport, DiagnoseResult, Evidence, MemoryLine
from kvcalc.reports.size import Advice
from kvcalc.units import GIB

ROUNDING = 0.012  # of a figure that follows from another figure of two decimals
PRINTED = 0.015 * GIB  # what two decimals can hide
WEIGHTS = 0.01  # loaded weights are counted, not measured


def diagnose(lines: str | Iterable[str], flags: dict[str, Any] | None = None) -> DiagnoseReport:
    """The answer for a log.

    Args:
        lines: the log's text, or its lines.
        flags: `model`, `gpu` and fields of a Deployment; they win over what the log says.

    Raises KvcalcError where the text is no start-up log, or a flag is wrong. What the log does not say is listed in
    `missing`, with the flag that says it.
    """
    facts = read_log(lines)
    specs = logged(facts, flags or {})
    budget = _budget(facts, specs)
    held = _capacity(facts, specs)
    result = DiagnoseResult(
        engine=specs.deployment.engine,
        version=facts.version,
        model=specs.model.name if specs.model else facts.model,
        gpu=specs.gpu.title if specs.gpu else facts.gpu,
        started=not facts.refusals,
        log=_log(facts),
        predicted=_predicted(facts, budget, held),
        memory=_memory(facts, budget),
        agreement=_agreement(facts, budget, held),
        refusals=explained(facts, specs.deployment, held),
        missing=specs.missing,
        advice=_advice(facts, specs, held),
        evidence=tuple(Evidence(**line.model_dump()) for line in facts.lines),
    )
    return DiagnoseReport(
        inputs={
            "model": specs.model.name if specs.model else None,
            "gpu": specs.gpu.name if specs.gpu else None,
            **specs.deployment.model_dump(mode="json"),
        },
        result=result,
        assumptions=(*specs.assumptions, *(budget.assumptions if budget else ())),
        sources=(*(specs.model.sources if specs.model else ()),),
        warnings=(*_restarts(facts), *(budget.warnings if budget else ())),
    )


def _restarts(facts: LogFacts) -> tuple[str, ...]:
    return (f"the text holds {facts.starts} starts: the last that says anything of memory counts",) * (facts.starts > 1)


def _budget(facts: LogFacts, specs: Logged) -> MemoryBudget | None:
    if specs.model is None or specs.gpu is None:
        return None
    observed = Observed.model_validate(
        {
            "runner": facts.runner if facts.runner in ("V0", "V1", "V2") else None,
            "sampler": "fused" if facts.sampler else None,
        }
    )
    weights = loaded_weight_bytes(specs.model, specs.deployment)
    return memory_before_cache(specs.model, specs.gpu, specs.deployment, weights, observed)


def _measured_pool(facts: LogFacts) -> int | None:
    return facts.pool_bytes if facts.pool_bytes is not None else facts.cache_bytes


def _capacity(facts: LogFacts, specs: Logged) -> Capacity | None:
    """What the pool that the log printed should hold."""
    pool = _measured_pool(facts)
    if specs.model is None or pool is None:
        return None
    try:
        return capacity(specs.model, specs.deployment, max(0, pool))
    except KvcalcError:
        return None  # this engine has no rule for the model: memory is still compared


def _log(facts: LogFacts) -> dict[str, Any]:
    """Everything the log says but the lines it was read from."""
    said = facts.model_dump(mode="json", exclude={"lines", "starts"}, exclude_none=True)
    return {name: value for name, value in said.items() if value not in ([], {}, ())}


def _estimate(value: ByteRange | None) -> dict[str, int] | None:
    return None if value is None else {"value": value.value, "low": value.low, "high": value.high}


def _predicted(facts: LogFacts, budget: MemoryBudget | None, held: Capacity | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if budget is not None:
        found |= {
            "total_bytes": budget.total,
            "requested_bytes": budget.requested,
            "weights_bytes": budget.weights,
            "non_torch_bytes": _estimate(budget.non_torch),
            "activation_bytes": _estimate(budget.activation.peak if budget.activation else None),
            "graphs_bytes": _estimate(budget.graphs),
            "pool_bytes": _estimate(budget.pool),
        }
        if budget.reason:
            found["not_predicted"] = budget.reason
    if held is not None:
        length = _length(facts)
        found |= {
            "blocks": held.num_blocks,
            "tokens": held.kv_cache_size_tokens,
            "concurrency": held.max_concurrency(length),
            "needed_bytes": held.needed_bytes(length) if length else None,
            "estimated_max_len": held.estimated_max_model_len(length) if length else None,
        }
    return found


def _length(facts: LogFacts) -> int | None:
    length = facts.settings.get("max_model_len")
    return length if isinstance(length, int) and length > 0 else None


def _memory(facts: LogFacts, budget: MemoryBudget | None) -> tuple[MemoryLine, ...]:
    """From the card's total to the pool; what the log does not print apart stands where it is inside."""
    peak = budget.activation.peak if budget and budget.activation else None
    rows = [
        ("the card", facts.total_bytes, _exact(budget.total) if budget else None, ""),
        ("requested", facts.requested_bytes, _exact(budget.requested) if budget else None, ""),
        ("weights", facts.weights_bytes, _exact(budget.weights) if budget else None, ""),
        ("outside PyTorch", facts.non_torch_bytes, budget.non_torch if budget else None, ""),
        ("activation peak", facts.activation_bytes, peak, _phase(budget)),
        ("CUDA graphs", facts.graphs_bytes, budget.graphs if budget else None, _graphs_note(budget)),
        ("kept back", _kept_back(facts), budget.reserve if budget and budget.reserve.high else None, ""),
        ("cache pool", _measured_pool(facts), budget.pool if budget else None, ""),
    ]
    if facts.consumed_bytes is not None:
        both = _exact(budget.weights).plus(budget.non_torch) if budget else None
        rows.insert(3, ("weights and outside PyTorch", facts.consumed_bytes, both, "printed together since vLLM 0.27"))
    if facts.activation_with_graphs_bytes is not None:
        whole = peak.plus(budget.graphs) if budget and peak else None
        rows.insert(-3, ("activation peak and graphs", facts.activation_with_graphs_bytes, whole, ""))
    lines = [_line(name, log, predicted, note) for name, log, predicted, note in rows if log is not None or predicted]
    rest = _unaccounted(facts)
    if rest is not None and abs(rest) > 3 * PRINTED:
        lines.append(MemoryLine(name="not accounted for", log_bytes=rest, note="the log's terms do not add up"))
    return tuple(lines)


def _exact(value: int) -> ByteRange:
    return ByteRange.exactly(value)


def _line(name: str, log: int | None, predicted: ByteRange | None, note: str) -> MemoryLine:
    if predicted is None or (predicted.high == 0 and not log):
        return MemoryLine(name=name, log_bytes=log, note=note)
    ranged = predicted.low != predicted.high
    return MemoryLine(
        name=name,
        log_bytes=log,
        predicted_bytes=predicted.value,
        low_bytes=predicted.low if ranged else None,
        high_bytes=predicted.high if ranged else None,
        note=note,
    )


def _phase(budget: MemoryBudget | None) -> str:
    return f"in the {budget.activation.phase}" if budget and budget.activation else ""


def _graphs_note(budget: MemoryBudget | None) -> str:
    return "" if budget is None or budget.graphs_charged else "on top of the requested memory"


def _kept_back(facts: LogFacts) -> int | None:
    """SGLang: what stays free of the memory before loading."""
    before, after, pool = facts.free_before_load_bytes, facts.free_after_load_bytes, _measured_pool(facts)
    return after - pool if before is not None and after is not None and pool is not None else None


def _unaccounted(facts: LogFacts) -> int | None:
    terms = (
        facts.requested_bytes,
        facts.weights_bytes,
        facts.non_torch_bytes,
        facts.activation_bytes,
        facts.pool_bytes,
    )
    if facts.consumed_bytes is not None or any(term is None for term in terms):
        return None
    requested, *rest = (term for term in terms if term is not None)
    charged = facts.graphs_estimate_bytes or 0
    left = requested - sum(rest)
    return min(left, left - charged, key=abs)


def _agreement(facts: LogFacts, budget: MemoryBudget | None, held: Capacity | None) -> tuple[Compared, ...]:
    """Memory against the prediction from config and flags, capacity against the rule on the log's own pool."""
    found = [
        _compared_memory(line)
        for line in _memory(facts, budget)
        if line.log_bytes is not None and line.predicted_bytes is not None and line.name != "the card"
    ]
    if held is not None:
        length = _length(facts)
        pairs: list[tuple[str, str, float | int | None, float | int | None]] = [
            ("blocks", "blocks", facts.blocks, held.num_blocks),
            ("tokens", "tokens", facts.tokens, held.kv_cache_size_tokens),
            ("concurrency", "sequences", facts.concurrency, held.max_concurrency(length)),
        ]
        if length:
            longest = held.estimated_max_model_len(length)
            pairs.append(("needed for one sequence", "bytes", facts.needed_bytes, held.needed_bytes(length)))
            pairs.append(("longest sequence", "tokens", facts.estimated_max_len, longest))
        found += [_compared(name, unit, log, value) for name, unit, log, value in pairs if log and value is not None]
    return tuple(found)


def _compared(name: str, unit: str, log: float, predicted: float) -> Compared:
    error = predicted / log - 1
    return Compared(
        name=name, unit=unit, log=log, predicted=predicted, error=round(error, 6), agrees=abs(error) <= ROUNDING
    )


def _compared_memory(line: MemoryLine) -> Compared:
    log, predicted = line.log_bytes or 0, line.predicted_bytes or 0
    low = predicted if line.low_bytes is None else line.low_bytes
    high = predicted if line.high_bytes is None else line.high_bytes
    room = PRINTED + (WEIGHTS * predicted if line.name == "weights" else 0)
    return Compared(
        name=line.name,
        unit="bytes",
        log=log,
        predicted=predicted,
        low=line.low_bytes,
        high=line.high_bytes,
        error=round(predicted / log - 1, 6) if log else None,
        agrees=low - room <= log <= high + room,
    )


def _advice(facts: LogFacts, specs: Logged, held: Capacity | None) -> tuple[Advice, ...]:
    """What the refusal says, then what the whole calculation says about the measured pool."""
    found = list(refusal_advice(facts, held))
    question = specs.question
    if question is not None:
        deployed = Deployed(question)
        with suppress(KvcalcError):  # without a capacity rule for this model, the log's own advice stands alone
            found += advice(deployed, deployed.operating_point(), measured_pool=_measured_pool(facts))
    first: dict[str, Advice] = {}
    for one in found:
        first.setdefault(one.change.split()[0], one)  # the engine's own figure wins over the calculated one
    return tuple(first.values())
