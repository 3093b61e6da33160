"""`kvcalc diagnose`: a start-up log, where the memory went, whether that agrees with the prediction, what to change."""

from collections.abc import Iterable, Sequence
from typing import Any

from kvcalc.answers.command import printed, startable, unsaid
from kvcalc.answers.diagnose.advice import log_advice
from kvcalc.answers.diagnose.agreement import agreement
from kvcalc.answers.diagnose.engine_words import changed_fields, in_engine_words
from kvcalc.answers.diagnose.memory import memory_lines
from kvcalc.answers.diagnose.refusal import explained
from kvcalc.answers.diagnose.start import logged
from kvcalc.answers.diagnose.started import Started
from kvcalc.answers.diagnose.working import diagnose_working
from kvcalc.catalog.serve.emit import Command, command_of
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.read import read_log
from kvcalc.engines.memory.budget import ByteRange
from kvcalc.results.data import data_of
from kvcalc.results.diagnose import DiagnoseReport, DiagnoseResult, Evidence
from kvcalc.results.size import Advice
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment

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
    started = Started(facts, specs)
    command = _command(started, specs.deployment)
    budget, model = started.budget, specs.model
    result = _result(started, command)
    return DiagnoseReport(
        inputs={
            "model": model.name if model else None,
            "gpu": specs.gpu.name if specs.gpu else None,
            **data_of(specs.deployment),
        },
        result=result,
        figures=tuple(diagnose_working(started, result)),
        assumptions=(
            *specs.assumptions,
            *(budget.assumptions if budget else ()),
            *_other_file(started),
            *unsaid(command),
        ),
        sources=model.sources if model else (),
        warnings=(
            *_restarts(facts),
            *(budget.warnings if budget else ()),
            *(model.warnings if model else ()),
        ),
    )


def _result(started: Started, command: Command | None) -> DiagnoseResult:
    facts, specs = started.facts, started.specs
    memory = memory_lines(started)
    found = log_advice(started)
    return DiagnoseResult(
        engine=specs.deployment.engine,
        version=facts.version,
        model=specs.model.name if specs.model else facts.model,
        gpu=specs.gpu.title if specs.gpu else facts.gpu,
        started=not facts.refusals,
        log=_log(facts),
        predicted=_predicted(started),
        memory=memory,
        agreement=agreement(started, memory),
        refusals=explained(started),
        missing=(*specs.missing, *_layout_missing(started)),
        advice=tuple(in_engine_words(one, specs.deployment.engine) for one in found),
        command=printed(command, specs.deployment),
        mended_command=_mended(started, found),
        evidence=tuple(Evidence(**data_of(line)) for line in facts.lines),
    )


def _command(started: Started, deployment: Deployment) -> Command | None:
    """The command of a start, under the name that the server was started with."""
    model, said = started.specs.model, started.facts.model or started.facts.model_file
    name = said if said is not None else model.name if model is not None else None
    if name is None or any(character.isspace() for character in name):
        return None
    if model is not None:
        name = startable(name, model, deployment)
    return command_of(name, deployment, own_drafter=bool(model is not None and model.mtp))


def _mended(started: Started, found: Sequence[Advice]) -> str | None:
    """The command with the first change that makes it start."""
    change = next((one.change for one in found if one.goal == "fit"), "")
    fields = changed_fields(change)
    if not started.facts.refusals or not fields:
        return None
    update = {name: getattr(checked(Deployment, {name: value}), name) for name, value in fields.items()}
    mended = replace(started.deployment, **update)
    return printed(_command(started, mended), mended)


def _layout_missing(started: Started) -> tuple[str, ...]:
    """Where one GPU cannot hold what the log may have spread over several."""
    budget, said = started.budget, started.facts.settings
    if budget is None or budget.pool is None or budget.pool.value > 0 or "tensor_parallel_size" in said:
        return ()
    if started.deployment.tensor_parallel_size > 1:
        return ()
    return ("the model leaves no memory on one GPU, and the log does not say how many shared it: give -tp",)


def _restarts(facts: LogFacts) -> tuple[str, ...]:
    unused = tuple(f"the log says {what}, which is not used" for what in facts.unused)
    if facts.starts == 1:
        return unused
    shown = f"lines {facts.first_line} to {facts.last_line} are shown"
    others = "; ".join(facts.others[:MOST_STARTS_NAMED])
    return (f"the text holds {facts.starts} starts: {shown}, the others are {others}", *unused)


def _other_file(started: Started) -> tuple[Assumption, ...]:
    """Said where the model that was found is not stored as the one that was served."""
    facts, specs = started.facts, started.specs
    if specs.model is None or facts.weights_bytes is None:
        return ()
    if not started.same_file:
        why = "the types of the file's tensors are not known here: give the .gguf with --model to compare the weights"
    elif started.other_checkpoint:
        why = f"the log's are not those of {specs.model.name} as it is stored and stand for them below: "
        why += "name the checkpoint that was served with --model"
    else:
        return ()
    return (Assumption(name="weights", value=None, why=why),)


def _log(facts: LogFacts) -> dict[str, Any]:
    """Everything the log says but the lines it was read from."""
    said = {name: value for name, value in data_of(facts).items() if name not in APART}
    said["caches"] = [{name: value for name, value in one.items() if value is not None} for one in said["caches"]]
    return {name: value for name, value in said.items() if value not in (None, [], {})}


def _estimate(value: ByteRange | None) -> dict[str, int] | None:
    """No memory is below zero; what a prediction lacks is said apart."""
    return None if value is None else {name: max(0, getattr(value, name)) for name in ("value", "low", "high")}


def _predicted(started: Started) -> dict[str, Any]:
    weights, budget, held, length = started.weights, started.budget, started.held, started.length
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
        if budget.pool is not None and budget.pool.value < 0:
            found["short_bytes"] = -budget.pool.value
        if budget.reason:
            found["not_predicted"] = budget.reason
    if held is not None:
        found |= {
            "blocks": held.num_blocks,
            "tokens": held.kv_cache_size_tokens,
            "concurrency": held.max_concurrency(length),
            "needed_bytes": held.needed_bytes(length) if length else None,
            "estimated_max_len": held.estimated_max_model_len(length) if length else None,
        }
    return found
