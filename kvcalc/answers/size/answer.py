"""`kvcalc size`: does it fit, how many users, how fast, what binds, what does it cost."""

from kvcalc.answers.advice import advice
from kvcalc.answers.assumptions import assumptions_of, price_warnings
from kvcalc.answers.command import command_for, printed, typed, unsaid
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import longest_point, operating_point, require_within
from kvcalc.answers.paging import paging_of
from kvcalc.answers.performance import Performance, inverse, range_of
from kvcalc.answers.question import Question
from kvcalc.answers.subject import inputs_of, subject
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import Verdict, verdict
from kvcalc.counting.work import Step
from kvcalc.engines import capacity
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.contract import Rules
from kvcalc.engines.memory.budget import ByteRange
from kvcalc.results.base import Figure, Range
from kvcalc.results.size import (
    ContextRow,
    IdealCapacity,
    MemoryTerm,
    SizeReport,
    SizeResult,
)
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import IDEAL
from kvcalc.timing.passes import Pass
from kvcalc.units import format_gib

USUAL_CONTEXTS = (2048, 8192, 32768)
WORTH_SAYING = 0.0005  # of the sequences


def size(question: Question, with_advice: bool = True, strict: bool = False, with_working: bool = True) -> SizeReport:
    """The answer for one GPU.

    Args:
        question: its GPU must be given; `rank` answers without one.
        with_advice: try what would change it, and what paging gives.
        strict: a context above the model's maximum is an error, as `check` needs it.
        with_working: the figures behind `--explain`.

    Raises:
        KvcalcError: the model does not divide by the layout, or the engine has no rule for it.
    """
    deployed = Deployed(question)
    asked = operating_point(deployed)
    if strict:
        require_within(deployed, asked)
    found = verdict(deployed, asked)
    point, shorter = longest_point(deployed, asked)
    speed = Performance(deployed, point=point)
    command = command_for(question)
    result = replace(
        _result(speed, found),
        by_context=_by_context(deployed, with_speed=with_advice),
        paging=paging_of(deployed, asked) if with_advice else None,
        advice=advice(Performance(deployed)) if with_advice else (),
        command=printed(command, typed(question), question.asked),
    )
    return SizeReport(
        inputs=_inputs(deployed, point.context, point.batch),
        result=result,
        figures=_working(speed) if with_working else (),
        assumptions=_once(
            (
                *question.assumptions,
                *assumptions_of(deployed),
                *speed.assumptions,
                *shorter,
                *unsaid(command),
                *unused(question, _figures),
            )
        ),
        sources=deployed.sources,
        warnings=(*speed.warnings, *deployed.budget.warnings, *price_warnings(deployed)),
    )


def _result(speed: Performance, found: Verdict) -> SizeResult:
    """What fits and how fast it is; advice and the command that starts it come on top."""
    deployed, point = speed.deployed, speed.point
    return SizeResult(
        **subject(deployed, found),
        engine=deployed.deployment.engine,
        engine_version=deployed.budget.engine_version,
        context=point.context,
        mean_context=point.mean_context,
        batch=point.batch,
        max_model_len=deployed.max_model_len,
        weight_bytes_per_gpu=deployed.weight_bytes_per_gpu,
        overhead_bytes_per_gpu=deployed.budget.overhead.value,
        kv_pool_bytes_per_gpu=deployed.pool_bytes,
        kv_pool_low_bytes_per_gpu=_end(deployed.budget.pool, "low"),
        kv_pool_high_bytes_per_gpu=_end(deployed.budget.pool, "high"),
        kv_cache_bytes_per_token=deployed.bytes_per_token(point.context),
        fixed_bytes_per_sequence=deployed.fixed_bytes,
        kv_cache_size_tokens=deployed.capacity.kv_cache_size_tokens if deployed.capacity else None,
        kv_cache_max_concurrency=deployed.capacity.max_concurrency() if deployed.capacity else None,
        kv_cache_needed_bytes_per_gpu=deployed.needed_bytes,
        estimated_max_model_len=_longest(deployed),
        max_batch=deployed.max_batch(point.context),
        memory=_memory(deployed),
        bound=speed.bound,
        estimate=speed.estimate,
        price=deployed.price,
        usd_per_hour=deployed.bill.usd_per_hour,
        gpus_billed=deployed.bill.gpus,
        serving=speed.serving,
        by_context=_by_context(deployed),
        ideal=_ideal(deployed, point.context),
    )


def _figures(question: Question) -> SizeResult:
    """What a flag may change; the command line that starts it names flags whether or not they do."""
    found = size(question, with_advice=False, with_working=False).result
    return replace(found, by_context=_by_context(Deployed(question), with_speed=True), command=None)


def _working(speed: Performance) -> tuple[Figure, ...]:
    from kvcalc.answers.serving_working import serving_working
    from kvcalc.answers.size.working import alone_working, size_working
    from kvcalc.answers.step.rows import rows_of, sums
    from kvcalc.answers.working import working

    deployed, point = speed.deployed, speed.point
    contexts = tuple(dict.fromkeys((point.context, *(row.context for row in _by_context(deployed)))))
    alone = alone_working({context: _alone_step(deployed, context) for context in contexts})
    step = () if speed.step is None else sums(rows_of(deployed, speed.step))
    return (*size_working(deployed, contexts), *alone, *working(speed), *step, *serving_working(speed))


def _longest(deployed: Deployed) -> int | None:
    """The longest single sequence that the pool holds, at most max_model_len."""
    if deployed.capacity is None or deployed.max_model_len is None:
        return None
    return deployed.capacity.estimated_max_model_len(deployed.max_model_len)


def _end(value: ByteRange | None, name: str) -> int | None:
    return None if value is None else max(0, int(getattr(value, name)))


def _once(assumptions: tuple[Assumption, ...]) -> tuple[Assumption, ...]:
    return tuple(dict.fromkeys(assumptions))


def _inputs(deployed: Deployed, context: int, batch: int | None) -> dict[str, object]:
    machine = None if deployed.gpu.instance is None else deployed.gpu.instance.name
    others = inputs_of(deployed, max_model_len=deployed.max_model_len, context=context, batch=batch)
    return {"model": deployed.model.name, "gpu": deployed.gpu.name, "machine": machine, **others}


def _memory(deployed: Deployed) -> tuple[MemoryTerm, ...]:
    """From the GPU's total to the pool, one line a term."""
    budget = deployed.budget
    whole = budget.requested == budget.total
    share = "" if whole else f"{budget.requested / budget.total:.0%} of {format_gib(budget.total)}"
    terms = [
        MemoryTerm(name="memory" if whole else "engine's share", bytes=budget.requested, note=share),
        MemoryTerm(name="weights", bytes=budget.weights, note=deployed.model.quantization or deployed.model.dtype),
    ]
    if budget.lora.high:
        terms.append(_ranged("LoRA adapters", budget.lora, ""))
    if budget.given_overhead is not None:
        return (*terms, _ranged("overhead", budget.given_overhead, "given"))
    if budget.reserve.high:
        terms.append(_ranged("reserve", budget.reserve, "for activations and graphs"))
    if budget.workspace.high:
        terms.append(_ranged("workspace", budget.workspace, "kept by attention and kernels"))
    if budget.non_torch.high:
        terms.append(_ranged(deployed.engine.OUTSIDE, budget.non_torch, ""))
    if budget.activation is not None:
        phase = f"in the {budget.activation.phase}" if deployed.engine.PEAK == Rules.PEAK else ""
        terms.append(_ranged(deployed.engine.PEAK, budget.activation.peak, phase))
    if budget.graphs.high:
        note = "" if budget.graphs_charged else "on top of the share"
        terms.append(_ranged("CUDA graphs", budget.graphs, note))
    return tuple(terms)


def _ranged(name: str, value: ByteRange, note: str) -> MemoryTerm:
    return MemoryTerm(name=name, bytes=value.value, low_bytes=value.low, high_bytes=value.high, note=note)


def _by_context(deployed: Deployed, with_speed: bool = False) -> tuple[ContextRow, ...]:
    if deployed.capacity is None:
        return ()
    longest = deployed.max_model_len
    contexts = [context for context in USUAL_CONTEXTS if longest is None or context < longest]
    contexts += [longest] if longest is not None else []
    return tuple(
        ContextRow(
            context=context,
            max_batch=(held := deployed.max_batch(context)),
            alone_tokens_per_s=_alone(deployed, context) if with_speed and held != 0 else None,
        )
        for context in contexts
    )


def _alone(deployed: Deployed, context: int) -> Range | None:
    """Tokens/s of one sequence that nobody shares the engine with."""
    found = _alone_step(deployed, context)
    return None if found is None else inverse(found, lambda seconds: 1 / seconds)


def _alone_step(deployed: Deployed, context: int) -> Range | None:
    found = Pass(deployed.replica, Step(decode=1, context=context)).estimate
    return None if found is None else range_of(found)


def _ideal(deployed: Deployed, context: int) -> IdealCapacity | None:
    """The same pool without the engine's rounding, and the difference in words."""
    if deployed.capacity is None or deployed.replica.ideal:
        return None
    # The engine may store another type than the file: whisper's float32 as 16 bits.
    plain = replace(deployed.deployment, engine=IDEAL, kv_cache_dtype=deployed.cache_dtype)
    ideal = capacity(deployed.model, plain, max(0, deployed.pool_bytes or 0))
    length = deployed.max_model_len or context
    said = _difference(ideal.max_concurrency(length), deployed.capacity, length)
    return IdealCapacity(
        kv_cache_size_tokens=ideal.kv_cache_size_tokens, max_batch=ideal.max_batch(context), difference=said
    )


def _difference(ideal: float | None, held: Capacity, length: int) -> str:
    """Sequences of one length, which mean the same to every engine; the tokens that engines print do not."""
    real = held.max_concurrency(length)
    if ideal is None or real is None:
        return "the cache does not grow"
    lost = 1 - real / ideal if ideal else 0.0
    if abs(lost) < WORTH_SAYING:
        return "the engine loses nothing"
    said = f"the engine holds {abs(lost):.1%} {'less' if lost > 0 else 'more'}"
    return said + (f": {held.rounding}" if held.rounding else "")
