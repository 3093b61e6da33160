"""`kvcalc run`: calibrate if need be, check that the step is right, then measure and compare it point by point."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kvcalc.answers.device.calibration import spec_of
from kvcalc.answers.device.constants import attention_at, linear_at
from kvcalc.answers.device.prediction import cache_bytes, trimmed
from kvcalc.answers.device.working import run_working
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.executor.beside import Beside, beside_bytes
from kvcalc.executor.cache import Cache, windows_of
from kvcalc.executor.calibrate import Progress, calibrate, completed, doubts, rate_of, silent
from kvcalc.executor.checkpoint import load_weights, weight_files
from kvcalc.executor.device import Device, sheet_of, torch_dtype
from kvcalc.executor.generate import generate
from kvcalc.executor.grid import ROOM, Found, Grid, Rig, measure_grid
from kvcalc.executor.loop import Decoder, Manner
from kvcalc.executor.microbench import Reading, read_bytes
from kvcalc.executor.microbench_layer import Heads
from kvcalc.executor.model import sampler
from kvcalc.executor.numerics import Numerics
from kvcalc.executor.pages import pages_held
from kvcalc.executor.points import Predictor
from kvcalc.executor.quiet import PATIENCE_S, Patience, moved
from kvcalc.executor.shape import Shape, shape_of
from kvcalc.executor.store import load_fresh, save, why_not_kept
from kvcalc.executor.timing import Bench
from kvcalc.executor.verify import verify
from kvcalc.executor.weights import Weights, random_weights
from kvcalc.results.calibrate import CalibrateResult, Tiling
from kvcalc.results.run import Accuracy, Correct, Generated, Memory, RunPoint, RunReport, RunResult
from kvcalc.specs.base import Assumption
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.units import format_bytes


@dataclass(frozen=True)
class Asked:
    """What to run."""

    device: Device
    batches: tuple[int, ...] = (1, 8, 32)
    contexts: tuple[int, ...] = (512, 2000)
    layers: int | None = None
    page_size: int = 64
    ragged: bool = False
    weights: Path | None = None
    prompts: tuple[tuple[int, ...], ...] = ()
    new_tokens: int = 16
    temperature: float = 0.0
    gpu: GpuSpec | None = None
    recalibrate: bool = False
    patience_s: float = PATIENCE_S
    progress: Progress = field(default=silent)


def run(model: ModelSpec, asked: Asked) -> RunReport:
    """The comparison at every batch and context.

    Raises:
        KvcalcError: a model, size or dtype that the executor does not run, too little memory, no quiet moment.
    """
    import torch

    cut = trimmed(model, asked.layers)
    shape = shape_of(cut)
    heads = Heads(model.dtype, shape.group, shape.head_dim, asked.page_size, shape.qk_norm)
    heads.check(asked.device)
    follows = _check(cut, shape, asked)
    with torch.inference_mode():
        calibration, ceilings, correct, generated, found = _measured(model, cut, heads, asked, follows)
    sheet = _sheet_of(asked)
    result = RunResult(
        model=model.name,
        device=asked.device.name,
        dtype=model.dtype,
        layers=cut.layers,
        model_layers=model.layers,
        block_size=asked.page_size,
        calibrated=calibration.date,
        read_bandwidth_bytes_per_s=calibration.read_bandwidth_bytes_per_s,
        peak_flops=calibration.peak_flops[model.dtype],
        linear=rate_of(linear_at(calibration, model.dtype, 1)),
        attention=rate_of(attention_at(calibration, *heads.shape)),
        points=tuple(found.points),
        accuracy=_accuracy(found.points),
        memory=max(found.memories, key=lambda one: one.predicted_bytes),
        correct=correct,
        generated=generated,
        sheet=sheet.title if sheet else None,
    )
    return RunReport(
        inputs=_inputs(model, asked),
        result=result,
        assumptions=(*model.assumptions, *_assumptions(asked, sheet, follows)),
        sources=(*model.sources, *ceilings.sources.values(), *(sheet.sources.values() if sheet else ())),
        figures=(*found.figures, *run_working(result)),
        warnings=(*_warnings(result, asked, calibration, found.memories), *found.said),
    )


class Measured(NamedTuple):
    """What the device did."""

    calibration: CalibrateResult
    ceilings: GpuSpec  # the calibration as a spec
    correct: Correct
    generated: tuple[Generated, ...]
    found: Found


def _measured(model: ModelSpec, cut: ModelSpec, heads: Heads, asked: Asked, follows: bool) -> Measured:
    """Calibrate if need be, see that the step is right, then time every point. `cut`: the layers that are run."""
    shape, bench = shape_of(cut), Bench(asked.device, Patience(asked.patience_s))
    calibration = _calibration(bench, heads, asked)
    ceilings = spec_of(calibration)
    sheet = _sheet_of(asked) or ceilings
    at = Predictor(cut, trimmed(model, None), sheet, ceilings, calibration, asked.page_size)
    beside = Beside(asked.device, heads, calibration, tied=cut.tied_embeddings) if follows else None
    asked.progress("weights", 0.25)
    weights, numerics = _weights(shape, model.dtype, asked)
    asked.progress("correctness", 0.3)
    tiling = attention_at(calibration, *heads.shape).tiling
    correct = verify(weights, asked.device, model.dtype, asked.page_size, numerics, tiling)
    generated = _generate(weights, numerics, tiling, asked) if asked.prompts else ()
    grid = Grid(asked.batches, asked.contexts, asked.page_size, asked.ragged, asked.patience_s, asked.progress)
    return Measured(
        calibration, ceilings, correct, generated, measure_grid(Rig(bench, weights, numerics, tiling, at, beside), grid)
    )


def _sheet_of(asked: Asked) -> GpuSpec | None:
    """The data sheet that was named, else the device's own; None: none is known."""
    return asked.gpu or sheet_of(asked.device)


def _check(model: ModelSpec, shape: Shape, asked: Asked) -> bool:
    """Whether there is room for benchmarks beside the points, too; a GPU does without.

    Raises:
        KvcalcError: the model itself and its smallest point do not fit, or a prompt is not of its tokens.
    """
    if any(token >= shape.vocab for prompt in asked.prompts for token in prompt):
        raise KvcalcError(f"--prompt: a token id beyond {shape.vocab - 1}", hint="ids count from 0")
    if asked.weights is not None:
        weight_files(asked.weights)  # before minutes of measuring
    weights, free = counted_weight_bytes(model), asked.device.free_bytes()
    least, most = (
        cache_bytes(model, [of(asked.contexts)] * of(asked.batches), asked.page_size, model.dtype) for of in (min, max)
    )
    needed = weights + least + read_bytes(asked.device)
    if needed > ROOM * free:
        what = f"{format_bytes(weights)} of weights, {format_bytes(least)} of cache"
        what += f" and {format_bytes(read_bytes(asked.device))} to measure with"
        raise KvcalcError(
            f"{what} do not fit in {format_bytes(free)} of free memory",
            hint="--layers N runs the first N layers; or give a smaller --batch or --context",
        )
    return not asked.device.is_gpu and needed - least + most + beside_bytes(asked.device) <= ROOM * free


def _calibration(bench: Bench, heads: Heads, asked: Asked) -> CalibrateResult:
    """The kept one where the device still is as it was then, completed for these heads; else a new one."""

    def progress(what: str, share: float) -> None:
        asked.progress(what, 0.25 * share)

    rows = {1, *asked.batches}
    kept = None if asked.recalibrate else load_fresh(bench.device)
    reading = Reading(bench)
    reading.warm()
    if kept is None or moved(kept.read_bandwidth_bytes_per_s, reading.bandwidth()):
        del reading
        return save(calibrate(bench, heads, rows, progress))
    found = completed(kept, bench, heads, rows, progress)
    return found if found == kept else save(found)


def _weights(shape: Shape, dtype: str, asked: Asked) -> tuple[Weights, Numerics]:
    place = asked.device.torch
    if asked.weights is None:
        weights, numerics = random_weights(shape, torch_dtype(dtype), place), Numerics()
    else:
        whole = asked.layers is None
        weights, numerics = load_weights(asked.weights, shape, torch_dtype(dtype), place, whole)
    weights.pack()
    return weights, numerics


def _generate(weights: Weights, numerics: Numerics, tiling: Tiling | None, asked: Asked) -> tuple[Generated, ...]:
    """Continue the prompts, all side by side."""
    shape, batch = weights.shape, len(asked.prompts)
    longest = max(len(prompt) for prompt in asked.prompts) + asked.new_tokens
    pages = [(pages_held(longest, asked.page_size, None) + 1) * batch + 1] * len(windows_of(shape))
    cache = Cache(shape, pages, asked.page_size, weights.embedding.dtype, asked.device.torch)
    manner = Manner(numerics, sampler(asked.temperature), tiling)
    decoder = Decoder(weights, cache, asked.device, batch, longest, manner)
    found = generate(decoder, [list(prompt) for prompt in asked.prompts], asked.new_tokens)
    return tuple(
        Generated(prompt=prompt, tokens=tuple(tokens)) for prompt, tokens in zip(asked.prompts, found, strict=True)
    )


def _accuracy(points: list[RunPoint]) -> Accuracy:
    steps = [point for point in points if point.term == "step"]
    errors = [abs(point.ratio - 1) for point in steps]
    undrifted = [abs(point.ratio * point.drift - 1) for point in steps]
    return Accuracy(
        mean_error=statistics.mean(errors),
        worst_error=max(errors),
        undrifted_mean_error=statistics.mean(undrifted),
        undrifted_worst_error=max(undrifted),
        points=len(steps),
    )


def _inputs(model: ModelSpec, asked: Asked) -> dict[str, object]:
    return {
        "model": model.name,
        "device": asked.device.name,
        "dtype": model.dtype,
        "batch": list(asked.batches),
        "context": list(asked.contexts),
        "layers": asked.layers or model.layers,
        "block_size": asked.page_size,
        "ragged": asked.ragged,
        "weights": str(asked.weights) if asked.weights else "random",
        "temperature": asked.temperature,
    }


def _assumptions(asked: Asked, sheet: GpuSpec | None, follows: bool) -> list[Assumption]:
    found = []
    if not follows and not asked.device.is_gpu:
        why = "too little memory to benchmark beside the points: constants are those of the calibration"
        found.append(Assumption(name="device", value="as calibrated", why=why))
    if sheet is None:
        why = f"no data sheet of {asked.device.name} is known: bound_s uses the measured rates; --gpu names one"
        found.append(Assumption(name="data sheet", value=None, why=why))
    if asked.weights is None:
        why = "noise in place of a checkpoint: times do not depend on the values; --weights DIR takes real ones"
        found.append(Assumption(name="weights", value="random", why=why))
    return found


def _warnings(result: RunResult, asked: Asked, calibration: CalibrateResult, memories: list[Memory]) -> list[str]:
    found = doubts(calibration, _sheet_of(asked))
    if not calibration.quiet:
        found.append("the device was not quiet while it was calibrated: its constants may be off")
    if (why := why_not_kept()) is not None:
        found.append(f"the calibration is not kept, and the next run measures again: {why}")
    noisy = {(point.batch, point.context) for point in result.points if not point.quiet}
    if noisy:
        found.append(f"not quiet meanwhile: {len(noisy)} of {result.accuracy.points} points (marked *)")
    cached = [point for point in result.points if point.term == "step" and point.bytes < asked.device.cache_bytes]
    if cached:
        size = format_bytes(asked.device.cache_bytes)
        some = f"{len(cached)} of {result.accuracy.points} points"
        found.append(f"{some} read less than the {size} that the caches hold: part of it may not come from memory")
    correct = result.correct
    if not correct.passed:
        wrong = f"outputs off by {correct.max_rel_error:.1e}, new keys and values by {correct.written_rel_error:.1e}"
        found.append(f"the step is not right: {wrong}")
    if any(one.predicted_bytes != one.measured_bytes for one in memories):
        found.append("allocated bytes are not the predicted ones")
    return found
