"""`kvcalc diagnose`: a start-up log, where the memory went, whether that agrees with the prediction, what to change."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kvcalc.answers.advice import advice
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.engine_words import in_engine_words
from kvcalc.answers.log_agreement import agreement, length_of
from kvcalc.answers.log_memory import measured_pool, memory_lines
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
from kvcalc.reports.diagnose import DiagnoseReport, DiagnoseResult, Evidence
from kvcalc.reports.size import Advice
from kvcalc.units import format_bytes, format_count


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
        memory=memory_lines(facts, budget),
        agreement=agreement(facts, budget, held),
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
    weights = loaded_weight_bytes(specs.model, specs.deployment, specs.gpu)
    return memory_before_cache(specs.model, specs.gpu, specs.deployment, weights, observed)


def _capacity(facts: LogFacts, specs: Logged) -> Capacity | None:
    """What the pool that the log printed should hold."""
    pool = measured_pool(facts)
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
        length = length_of(facts)
        found |= {
            "blocks": held.num_blocks,
            "tokens": held.kv_cache_size_tokens,
            "concurrency": held.max_concurrency(length),
            "needed_bytes": held.needed_bytes(length) if length else None,
            "estimated_max_len": held.estimated_max_model_len(length) if length else None,
        }
    return found


def _advice(facts: LogFacts, specs: Logged, held: Capacity | None) -> tuple[Advice, ...]:
    """What the refusal says, then what the whole calculation says about the measured pool."""
    found = list(refusal_advice(facts, held))
    question = specs.question
    if specs.deployment.engine == "llamacpp":
        found += _room(facts, specs)
    elif question is not None:
        deployed = Deployed(question)
        with suppress(KvcalcError):  # without a capacity rule for this model, the log's own advice stands alone
            found += advice(deployed, deployed.operating_point(), measured_pool=measured_pool(facts))
    found = [in_engine_words(one, specs.deployment.engine) for one in found]
    first: dict[str, Advice] = {}
    for one in found:
        first.setdefault(one.change.split()[0], one)  # the engine's own figure wins over the calculated one
    return tuple(first.values())


def _room(facts: LogFacts, specs: Logged) -> list[Advice]:
    """llama.cpp: the longest n_ctx that what is free besides weights and buffers could hold."""
    if specs.model is None or None in (facts.free_bytes, facts.weights_bytes, facts.activation_bytes):
        return []
    left = (facts.free_bytes or 0) - (facts.weights_bytes or 0) - (facts.activation_bytes or 0)
    longest_asked = specs.model.max_context
    if left <= 0 or longest_asked is None:
        return []
    longest = capacity(specs.model, specs.deployment, left).estimated_max_model_len(longest_asked)
    effect = f"n_ctx up to {format_count(longest)} fits in the {format_bytes(left)} beside weights and buffers"
    return [Advice(change=f"-c {longest}", effect=effect, goal="batch")] if longest else []
