"""`kvcalc prefill`: the time to the first token, and what a long prompt does to everybody else."""

from collections import defaultdict
from typing import Annotated, NamedTuple

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint, at_least_one
from kvcalc.answers.performance import FirstToken, Performance
from kvcalc.answers.prefill import cache as moving
from kvcalc.answers.prefill.chunks import (
    Beside,
    choices,
    chunk_steps,
    chunk_under,
    decode_pass,
    free_chunk,
    mixed_pass,
    require_few_steps,
)
from kvcalc.answers.prefill.pools import Load, disaggregation
from kvcalc.answers.question import Question, runs_beyond
from kvcalc.answers.serving_working import serving_working
from kvcalc.answers.subject import inputs_of, subject
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure
from kvcalc.results.data import data_of
from kvcalc.results.prefill import Disaggregation, PrefillReport, PrefillResult, Spike, Term, Transfer
from kvcalc.specs.base import Assumption, Frozen
from kvcalc.specs.constraints import Within
from kvcalc.specs.deployment import Bytes, Tokens, bandwidth, share, tokens
from kvcalc.timing.chunks import chunks as prompt_chunks
from kvcalc.timing.estimate import prompt_time
from kvcalc.timing.passes import Pass
from kvcalc.units import format_count

USUAL_PROMPT = 2048


class PrefillSettings(Frozen):
    """What `prefill` takes beside the flags of every command."""

    chunk: Annotated[Tokens | None, tokens("--chunk")] = None
    compute_efficiency: Annotated[float, Within(gt=0, le=1), share("--compute-efficiency")] = 1.0
    host_bandwidth: Annotated[Bytes | None, bandwidth("--host-bandwidth")] = None  # bytes/s, one way


class Prompt(NamedTuple):
    """The prompt that is asked about: on its deployment, beside the others, and with the engine to itself."""

    deployed: Deployed
    beside: Beside
    first: FirstToken
    alone: Pass  # in one piece, at the efficiency that was asked for
    chunk: int

    @property
    def alone_s(self) -> float:
        """The estimate of its first token where there is one, else the bound of the pass."""
        return float(self.alone.bound_s) if self.first.estimate is None else self.first.estimate.value


def prefill(question: Question, settings: PrefillSettings | None = None, with_working: bool = True) -> PrefillReport:
    """One prompt on this deployment, alone and beside the sequences of `--batch` and `--context`.

    `with_working`: and the figures behind `--explain`.
    """
    settings = settings or PrefillSettings()
    deployed = Deployed(question)
    speed = Performance(deployed)
    point, nothing_fits = at_least_one(speed.point)
    point, crowded = _with_room(deployed, point, settings)
    asked = _prompt(speed, point, settings)
    result, figures = _result(speed, point, asked, settings)
    return PrefillReport(
        inputs=_inputs(deployed, result, settings),
        result=result,
        figures=(*_working(asked, result, point.context), *figures, *serving_working(speed)) if with_working else (),
        assumptions=(*question.assumptions, *nothing_fits, *crowded, *_unpriced(deployed), *point.assumptions,
                     *_assumed(deployed, result), *asked.alone.assumptions,
                     *unused(question, lambda other: prefill(other, settings, with_working=False).result)),
        sources=deployed.sources,
        warnings=(*speed.warnings, *_too_long(deployed, result.prompt_tokens)),
    )  # fmt: skip


def _working(asked: Prompt, result: PrefillResult, context: int) -> tuple[Figure, ...]:
    from kvcalc.answers.prefill.working import prompt_working

    return tuple(prompt_working(asked.deployed, asked.beside, asked.alone, result, context))


def _prompt(speed: Performance, point: OperatingPoint, settings: PrefillSettings) -> Prompt:
    deployed = speed.deployed
    prompt = deployed.question.workload.input_len or USUAL_PROMPT
    beside = Beside(
        prompt=prompt,
        start=deployed.usable_hit(prompt),
        batch=point.batch or 1,
        context=point.mean_context,
        compute_efficiency=settings.compute_efficiency,
        front_end_s=deployed.front_end_s,
    )
    chunk = settings.chunk or _default_chunk(deployed, beside.batch)
    require_few_steps(beside, chunk)
    first = speed.alone(prompt)
    alone = Pass(deployed.replica, first.prompt.step, settings.compute_efficiency)
    return Prompt(deployed, beside, first, alone, chunk)


def _result(
    speed: Performance, point: OperatingPoint, asked: Prompt, settings: PrefillSettings
) -> tuple[PrefillResult, tuple[Figure, ...]]:
    """The answer, and the working of the free chunk, the transfers and the preemption."""
    deployed, beside, _, alone, chunk = asked
    decode, steps = decode_pass(deployed, beside), chunk_steps(deployed, beside, chunk)
    free, free_figures = free_chunk(deployed, beside)
    links, link_figures = moving.transfers(deployed, beside.prompt, asked.alone_s)
    swap, swap_figures = moving.preemption(deployed, beside.prompt, beside.compute_efficiency, settings.host_bandwidth)
    wanted = deployed.question.workload
    result = PrefillResult(
        **subject(deployed, verdict(deployed, speed.point)),
        engine=deployed.deployment.engine,
        prompt_tokens=beside.prompt,
        batch=beside.batch,
        context=beside.context,
        chunk=chunk,
        flops=single(alone.flops),
        attention_share=single(alone.attention_flops / alone.flops),
        memory_time_s=single(alone.memory_time_s),
        compute_time_s=single(alone.compute_time_s),
        bound_s=single(alone.bound_s),
        operator_bound_s=single(alone.operator_bound_s),
        estimate_s=asked.first.estimate,
        ttft_terms=_terms(asked),
        decode_step_s=single(decode.time_s),
        free_chunk_tokens=free,
        spike=_spike(asked, decode),
        chunks=steps,
        chunked_ttft_s=beside.front_end_s + sum(one.step_time_s for one in steps),
        by_chunk=choices(deployed, beside, chunk, asked.alone_s),
        chunk_for_tpot=chunk_under(deployed, beside, wanted.tpot_s) if wanted.tpot_s else None,
        prefix=moving.prefix_hit(deployed, beside.prompt, point.context) if wanted.prefix_hit else None,
        transfer=links,
        disaggregation=_pools(asked, point, links),
        preemption=swap,
        serving=speed.serving,
    )
    return result, (*free_figures, *link_figures, *swap_figures)


def _spike(asked: Prompt, decode: Pass) -> Spike:
    """The whole prompt in one step of those that decode."""
    beside = asked.beside
    whole = mixed_pass(asked.deployed, beside, beside.prompt - beside.start, beside.start)
    return Spike(step_time_s=single(whole.time_s), ratio=single(whole.time_s / decode.time_s))


def _with_room(
    deployed: Deployed, point: OperatingPoint, settings: PrefillSettings
) -> tuple[OperatingPoint, tuple[Assumption, ...]]:
    """The point with fewer sequences where as many as fit, which nobody asked for, would leave a step no prompt."""
    budget, batch = deployed.max_num_batched_tokens, point.batch or 1
    given = settings.chunk is not None or deployed.question.workload.batch is not None
    if given or batch < budget or deployed.replica.machine.profile.prefill_first:
        return point, ()
    half = max(1, budget // 2)
    why = f"half of a step's {format_count(budget)} tokens: {format_count(batch)} that fit would leave a prompt none"
    return point._replace(batch=half), (Assumption(name="batch", value=half, why=why),)


def _default_chunk(deployed: Deployed, batch: int) -> int:
    """What is left of a step's tokens when every decoding sequence has had one."""
    budget = deployed.max_num_batched_tokens
    if deployed.replica.machine.profile.prefill_first:
        return budget  # a prompt is a step of its own
    if batch >= budget:
        raise KvcalcError(
            f"{format_count(batch)} decoding sequences fill max_num_batched_tokens = {format_count(budget)}",
            hint="raise --max-num-batched-tokens, lower --batch, or give --chunk",
        )
    return budget - batch


def _terms(asked: Prompt) -> tuple[Term, ...]:
    """The parts of the time to the first token of a prompt that does not wait, the longest first."""
    deployed, beside, _, alone, _ = asked
    parts: dict[str, float] = defaultdict(float)
    if deployed.replica.ideal:
        if alone.memory_time_s > alone.compute_time_s:
            return (Term(name="reading the weights", time_s=single(alone.memory_time_s), share=1.0),)
        compute_s = single(alone.compute_time_s)
        attention = compute_s * single(alone.attention_flops) / single(alone.flops)
        parts |= {"weights": compute_s - attention, "attention": attention}
    else:
        for part in prompt_chunks(beside.prompt - beside.start, deployed.replica.budget, beside.start):
            one = Pass(deployed.replica, Step(prompts=1, tokens=part.tokens, start=part.start))
            computing_s = prompt_time(one.sums, deployed.replica.machine.profile)
            factor = computing_s / sum(t.time_s for t in one.operator_times)
            for time in one.operator_times:
                parts[time.operator.name] += single(part.number * factor * time.time_s)
            if deployed.prefetch:
                parts["waiting for weights"] += single(part.number * (one.kernels_s - computing_s))
        parts["front end"] = beside.front_end_s
        parts["launches"] = max(0.0, asked.alone_s - sum(parts.values()))
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda pair: -pair[1])
    return tuple(Term(name=name, time_s=time, share=time / whole) for name, time in ordered if time > 0)


def _pools(asked: Prompt, point: OperatingPoint, links: tuple[Transfer, ...]) -> Disaggregation | None:
    """Against pools that the network joins, or where there is none the fastest link; None without an output length."""
    deployed, beside = asked.deployed, asked.beside
    workload = deployed.question.workload
    if workload.output_len is None or not links:
        return None
    link = next((one for one in links if one.link in ("network", "roce")), links[0])
    load = Load(
        prompt=beside.prompt,
        hit=beside.start,
        output_len=workload.output_len,
        context=beside.context,
        budget=deployed.max_num_batched_tokens,
        batch=beside.batch,
        max_batch=deployed.max_batch(point.context),
        tpot_s=workload.tpot_s,
    )
    return disaggregation(deployed, load, asked.alone_s, link)


def _inputs(deployed: Deployed, result: PrefillResult, settings: PrefillSettings) -> dict[str, object]:
    return inputs_of(
        deployed,
        input_len=result.prompt_tokens,
        output_len=deployed.question.workload.output_len,
        batch=result.batch,
        context=result.context,
        tpot_s=deployed.question.workload.tpot_s,
        prefix_hit=deployed.question.workload.prefix_hit,
        **data_of(settings) | {"chunk": result.chunk},
    )


def _assumed(deployed: Deployed, result: PrefillResult) -> tuple[Assumption, ...]:
    found = [*moving.assumptions(deployed)]
    if deployed.question.workload.input_len is None:
        found.append(Assumption(name="input_len", value=result.prompt_tokens, why="no --input-len was given"))
    beyond = deployed.beyond(result.prompt_tokens)
    if beyond is not None:
        found.append(runs_beyond("input_len", result.prompt_tokens, beyond))
    found.append(Assumption(name="queue", value=0, why="the prompt starts at once; a queue comes on top"))
    if deployed.replica.ideal:
        why = "recomputation counts the weights' FLOPs alone, and a swap no latency, as the lessons do"
        found.append(Assumption(name="preemption", value=None, why=why))
    return tuple(found)


def _unpriced(deployed: Deployed) -> tuple[Assumption, ...]:
    """Nothing here costs money."""
    return tuple(one for one in assumptions_of(deployed) if one.name not in ("price", "idle GPUs"))


def _too_long(deployed: Deployed, prompt: int) -> tuple[str, ...]:
    beyond = deployed.beyond(prompt)
    return () if beyond is None else (f"a prompt of {format_count(prompt)} is above {beyond}",)
