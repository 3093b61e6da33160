"""A long prompt beside decoding sequences: in one piece, in chunks, and on GPUs of its own, as `prefill` has them."""

from collections.abc import Iterator

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.prefill.cache import transfers
from kvcalc.answers.prefill.chunks import Beside, chunk_steps, decode_pass
from kvcalc.answers.question import Question
from kvcalc.results.prefill import Chunk
from kvcalc.results.report import PromptMode, Prompts, PromptStep
from kvcalc.specs.base import replace
from kvcalc.specs.load import Workload

LENGTHS = (2048, 8192, 32768)
CHUNKS = (256, 512, 1024, 2048)
BATCH, CONTEXT = 64, 1024  # the lessons' decoding sequences
TPOT_TARGET_S = 0.050  # the lessons' example of a target, where none is given
ONE_PIECE, APART = "one piece", "on GPUs of its own"
PLAIN_AFTER = 6  # steps shown once the prompt is done


def batch_of(deployed: Deployed) -> int:
    """As many sequences as the lessons have, or as fit."""
    limits = [one for one in (BATCH, deployed.max_batch(CONTEXT), deployed.max_num_seqs) if one is not None]
    return max(1, min(limits))


def prompts(question: Question) -> Prompts:
    """Every prompt length in every mode, step by step."""
    batch = batch_of(Deployed(question))
    modes: list[PromptMode] = []
    steps: list[PromptStep] = []
    decode_s = 0.0
    for prompt in lengths(Deployed(question)):
        workload = replace(Workload(), input_len=prompt, batch=batch, context=CONTEXT)
        deployed = Deployed(question._replace(workload=workload))
        beside = Beside(prompt=prompt, start=0, batch=batch, context=CONTEXT, front_end_s=deployed.front_end_s)
        decode_s = float(decode_pass(deployed, beside).time_s)
        for mode, chunk, found in _chunked(deployed, beside):
            modes.append(_mode(beside, mode, chunk, found, decode_s))
            steps += _steps(prompt, mode, found, decode_s)
        alone_s = Performance(deployed).alone(prompt).time_s
        modes.append(_apart(deployed, prompt, alone_s, decode_s))
        steps += _steps(prompt, APART, (), decode_s)
    return Prompts(
        batch=batch,
        context=CONTEXT,
        decode_step_s=decode_s,
        tpot_target_s=question.workload.tpot_s or TPOT_TARGET_S,
        modes=tuple(modes),
        steps=tuple(steps),
    )


def lengths(deployed: Deployed) -> tuple[int, ...]:
    """The usual prompts, none above what the engine takes."""
    longest = deployed.max_model_len
    return tuple(one for one in LENGTHS if longest is None or one <= longest) or (longest or LENGTHS[0],)


def _chunked(deployed: Deployed, beside: Beside) -> Iterator[tuple[str, int | None, tuple[Chunk, ...]]]:
    yield ONE_PIECE, None, chunk_steps(deployed, beside, beside.prompt)
    for chunk in CHUNKS:
        if chunk < beside.prompt:
            yield f"chunks of {chunk:,}", chunk, chunk_steps(deployed, beside, chunk)


def _mode(beside: Beside, mode: str, chunk: int | None, found: tuple[Chunk, ...], decode_s: float) -> PromptMode:
    worst = max(one.step_time_s for one in found)
    return PromptMode(
        prompt=beside.prompt,
        mode=mode,
        chunk=chunk,
        worst_step_s=worst,
        ratio=worst / decode_s,
        prompt_s=beside.front_end_s + sum(one.step_time_s for one in found),
        transfer_s=None,
        steps=len(found),
    )


def _apart(deployed: Deployed, prompt: int, alone_s: float, decode_s: float) -> PromptMode:
    """The decoding GPUs go on as they were; the prompt is computed elsewhere and its cache is sent."""
    links, _ = transfers(deployed, prompt, alone_s)
    link = next((one for one in links if one.link in ("network", "roce")), links[0] if links else None)
    sent = None if link is None else link.time_s
    return PromptMode(prompt=prompt, mode=APART, chunk=None, worst_step_s=decode_s, ratio=1.0, prompt_s=alone_s,
                      transfer_s=sent, steps=0)  # fmt: skip


def _steps(prompt: int, mode: str, found: tuple[Chunk, ...], decode_s: float) -> Iterator[PromptStep]:
    """Those of the prompt, then plain ones."""
    for number, one in enumerate(found):
        yield PromptStep(prompt=prompt, mode=mode, step=number, tokens=one.tokens, step_time_s=one.step_time_s)
    for number in range(len(found), len(found) + PLAIN_AFTER):
        yield PromptStep(prompt=prompt, mode=mode, step=number, tokens=0, step_time_s=decode_s)
