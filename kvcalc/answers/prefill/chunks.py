"""Chunked prefill: the steps that carry a prompt, what a chunk size does to everybody, and which chunk is free."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain
from kvcalc.answers.searches import largest
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.formulas import prefill as formulas
from kvcalc.results.base import Figure
from kvcalc.results.prefill import Chunk, ChunkChoice, FreeChunk, TargetChunk
from kvcalc.specs.base import Frozen
from kvcalc.timing.passes import Pass
from kvcalc.units import format_count

SLOWDOWN = 0.1  # at the estimate every token costs a little; a step this much longer still passes as free
NOTHING = 1e-3  # at the bound, of the step: less than a data sheet's rounding
USUAL_CHUNKS = (256, 512, 1024, 2048, 8192)
LARGEST_CHUNK = 2**20
MOST_STEPS = 200_000  # of one prompt: what a command works out in seconds


class Beside(Frozen):
    """A prompt and the sequences that decode beside it. `start` prompt tokens are cached already."""

    prompt: int
    start: int
    batch: int
    context: int
    compute_efficiency: float = 1.0
    front_end_s: float = 0.0  # once, before the first chunk


def decode_pass(deployed: Deployed, beside: Beside) -> Pass:
    """The plain decode step of the sequences."""
    return Pass(deployed.replica, Step(decode=beside.batch, context=beside.context), beside.compute_efficiency)


def mixed_pass(deployed: Deployed, beside: Beside, tokens: int, start: int) -> Pass:
    """The step that decodes and carries `tokens` tokens of the prompt after `start` of them."""
    step = Step(decode=beside.batch, context=beside.context, prompts=1, tokens=tokens, start=start)
    return Pass(deployed.replica, step, beside.compute_efficiency)


def require_few_steps(beside: Beside, chunk: int) -> None:
    """Before any work.

    Raises:
        KvcalcError: the prompt in such chunks is more steps than a command works out.
    """
    count = -(-(beside.prompt - beside.start) // chunk)
    if count > MOST_STEPS:
        said = f"a prompt of {format_count(beside.prompt)} tokens in chunks of {chunk:,} takes {count:,} steps"
        raise KvcalcError(f"--chunk: {said}", hint=f"at most {MOST_STEPS:,} are worked out: give a larger --chunk")


def chunk_steps(deployed: Deployed, beside: Beside, chunk: int) -> tuple[Chunk, ...]:
    """Every step of the prompt in chunks: the full ones in one sweep, then what is left."""
    import numpy as np

    steps = formulas.chunks(beside.prompt - beside.start, chunk)
    starts = np.array([beside.start + done for done, _ in steps], dtype=float)
    sizes = np.array([tokens for _, tokens in steps], dtype=float)
    step = Step(decode=beside.batch, context=beside.context, prompts=1, tokens=sizes, start=starts)
    times = np.atleast_1d(Pass(deployed.replica, step, beside.compute_efficiency).time_s)
    return tuple(
        Chunk(start=beside.start + done, tokens=tokens, step_time_s=float(time))
        for (done, tokens), time in zip(steps, times, strict=True)
    )


def choice(deployed: Deployed, beside: Beside, chunk: int, decode_s: float, alone_s: float) -> ChunkChoice:
    """What a chunk size does to the others' time per token and to the prompt's first token."""
    times = [one.step_time_s for one in chunk_steps(deployed, beside, chunk)]
    return ChunkChoice(
        chunk=chunk,
        steps=len(times),
        mean_step_s=sum(times) / len(times),
        worst_step_s=max(times),
        worst_ratio=max(times) / decode_s,
        ttft_s=beside.front_end_s + sum(times),
        waits_s=beside.front_end_s + sum(times) - alone_s,
    )


def choices(deployed: Deployed, beside: Beside, chunk: int, alone_s: float) -> tuple[ChunkChoice, ...]:
    """The usual sizes, the one in use, and the whole prompt at once."""
    left = beside.prompt - beside.start
    sizes = sorted({size for size in (*USUAL_CHUNKS, chunk) if size < left and size * MOST_STEPS >= left} | {left})
    decode_s = float(decode_pass(deployed, beside).time_s)
    return tuple(choice(deployed, beside, size, decode_s, alone_s) for size in sizes)


def chunk_under(deployed: Deployed, beside: Beside, tpot_s: float) -> TargetChunk:
    """The largest chunk whose slowest step keeps the target: the last full one, or what is left after it."""
    left = beside.prompt - beside.start

    def worst(chunk: int) -> float:
        rest = left % chunk if left >= chunk else 0
        full = float(mixed_pass(deployed, beside, min(chunk, left), beside.prompt - rest - min(chunk, left)).time_s)
        return max(full, float(mixed_pass(deployed, beside, rest, beside.prompt - rest).time_s)) if rest else full

    found = largest(lambda chunk: worst(chunk) <= tpot_s, left)
    if not found:
        return TargetChunk(tpot_s=tpot_s, chunk=None, worst_step_s=None, ttft_s=None)
    if found * MOST_STEPS < left:
        return TargetChunk(tpot_s=tpot_s, chunk=found, worst_step_s=worst(found), ttft_s=None)
    times = [one.step_time_s for one in chunk_steps(deployed, beside, found)]
    return TargetChunk(tpot_s=tpot_s, chunk=found, worst_step_s=max(times), ttft_s=beside.front_end_s + sum(times))


def free_chunk(deployed: Deployed, beside: Beside) -> tuple[FreeChunk, tuple[Figure, ...]]:
    """How many prompt tokens a decode step carries for nothing.

    With `--engine ideal` it is the lessons' formula. With a real engine the tokens of a mixture of experts wake experts
    that the decoding rows leave alone, so the bound is asked, not the formula.
    """
    decode = decode_pass(deployed, beside)
    if deployed.replica.ideal:
        figure = explain(
            formulas.free_chunk_tokens,
            name="free chunk",
            memory_time_s=decode.memory_time_s,
            peak_flops=deployed.replica.peak_flops,
            parameters=(decode.flops - decode.attention_flops) / (2 * beside.batch),
            batch=beside.batch,
            compute_efficiency=beside.compute_efficiency,
        )
        return FreeChunk(bound=max(0.0, figure.value or 0.0), estimate=None, slowdown=None), (figure,)

    def mixed(tokens: int) -> Pass:
        return mixed_pass(deployed, beside, tokens, 0)

    at_bound = largest(lambda n: single(mixed(n).bound_s) <= (1 + NOTHING) * single(decode.bound_s), LARGEST_CHUNK)
    at_estimate = largest(lambda n: single(mixed(n).time_s) <= (1 + SLOWDOWN) * single(decode.time_s), LARGEST_CHUNK)
    return FreeChunk(bound=at_bound, estimate=at_estimate, slowdown=SLOWDOWN), ()
