"""`kvcalc diagnose`: a start-up log, where the memory went, whether that agrees with the prediction, what to change."""

from collections.abc import Iterable
from typing import Any

from kvcalc.answers.diagnose.advice import log_advice
from kvcalc.answers.diagnose.agreement import agreement, length_of
from kvcalc.answers.diagnose.memory import measured_pool, memory_lines, other_weights
from kvcalc.answers.diagnose.refusal import explained
from kvcalc.answers.diagnose.start import Logged, logged
from kvcalc.engines import capacity, loaded_weight_bytes, memory_before_cache, rules
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.read import read_log
from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.engines.memory.start import Observed
from kvcalc.errors import KvcalcError
from kvcalc.results.data import data_of
from kvcalc.results.diagnose import DiagnoseReport, DiagnoseResult, Evidence
from kvcalc.specs.base import Assumption
from kvcalc.specs.build import build

MOST_STARTS_NAMED = 4
APART = ("lines", "starts", "others", "unused", "first_line", "last_line")  # said elsewhere in the answer


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
    weights = _weights(specs)
    loaded = facts.weights_bytes if other_weights(facts, weights) else weights
    budget = _budget(facts, specs, loaded)
    held = _capacity(facts, specs)
    memory = memory_lines(facts, budget, weights if _same_file(specs) else None)
    result = DiagnoseResult(
        engine=specs.deployment.engine,
        version=facts.version,
        model=specs.model.name if specs.model else facts.model,
        gpu=specs.gpu.title if specs.gpu else facts.gpu,
        started=not facts.refusals,
        log=_log(facts),
        predicted=_predicted(facts, weights, budget, held),
        memory=memory,
        agreement=agreement(facts, memory, held),
        refusals=explained(facts, specs, held, budget),
        missing=specs.missing,
        advice=log_advice(facts, specs, held, budget),
        evidence=tuple(Evidence(**data_of(line)) for line in facts.lines),
    )
    return DiagnoseReport(
        inputs={
            "model": specs.model.name if specs.model else None,
            "gpu": specs.gpu.name if specs.gpu else None,
            **data_of(specs.deployment),
        },
        result=result,
        assumptions=(*specs.assumptions, *(budget.assumptions if budget else ()), *_other_file(facts, specs, weights)),
        sources=(*(specs.model.sources if specs.model else ()),),
        warnings=(
            *_restarts(facts),
            *(budget.warnings if budget else ()),
            *(specs.model.warnings if specs.model else ()),
        ),
    )


def _restarts(facts: LogFacts) -> tuple[str, ...]:
    unused = tuple(f"the log says {what}, which is not used" for what in facts.unused)
    if facts.starts == 1:
        return unused
    shown = f"lines {facts.first_line} to {facts.last_line} are shown"
    others = "; ".join(facts.others[:MOST_STARTS_NAMED])
    return (f"the text holds {facts.starts} starts: {shown}, the others are {others}", *unused)


def _weights(specs: Logged) -> int | None:
    return None if specs.model is None else loaded_weight_bytes(specs.model, specs.deployment, specs.gpu)


def _same_file(specs: Logged) -> bool:
    """A GGUF stores each tensor in a type of its own: only the file itself says what llama.cpp loads."""
    return not rules(specs.deployment.engine).WEIGHTS_AS_IN_FILE or (
        specs.model is not None and specs.model.weight_file_bytes is not None
    )


def _other_file(facts: LogFacts, specs: Logged, weights: int | None) -> tuple[Assumption, ...]:
    """Said where the model that was found is not stored as the one that was served."""
    if specs.model is None or facts.weights_bytes is None:
        return ()
    if not _same_file(specs):
        why = "the types of the file's tensors are not known here: give the .gguf with --model to compare the weights"
    elif other_weights(facts, weights):
        why = f"the log's are not those of {specs.model.name} as it is stored and stand for them below: "
        why += "name the checkpoint that was served with --model"
    else:
        return ()
    return (Assumption(name="weights", value=None, why=why),)


def _budget(facts: LogFacts, specs: Logged, weights: int | None) -> MemoryBudget | None:
    if specs.model is None or specs.gpu is None or weights is None:
        return None
    observed = build(
        Observed,
        {
            "runner": facts.runner if facts.runner in ("V0", "V1", "V2") else None,
            "sampler": "fused" if facts.sampler else None,
        },
    )
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
    said = {name: value for name, value in data_of(facts).items() if name not in APART}
    said["caches"] = [{name: value for name, value in one.items() if value is not None} for one in said["caches"]]
    return {name: value for name, value in said.items() if value not in (None, [], {})}


def _estimate(value: ByteRange | None) -> dict[str, int] | None:
    return None if value is None else {"value": value.value, "low": value.low, "high": value.high}


def _predicted(
    facts: LogFacts, weights: int | None, budget: MemoryBudget | None, held: Capacity | None
) -> dict[str, Any]:
    found: dict[str, Any] = {} if weights is None else {"weights_bytes": weights}
    if budget is not None:
        found |= {
            "total_bytes": budget.total,
            "requested_bytes": budget.requested,
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
