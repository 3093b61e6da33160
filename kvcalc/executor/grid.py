"""Every batch and context of a run: measured, compared, or left out where it does not fit."""

import gc
from dataclasses import dataclass, field

from kvcalc.answers.device.prediction import cache_bytes
from kvcalc.errors import KvcalcError
from kvcalc.executor.beside import Beside
from kvcalc.executor.calibrate import Progress
from kvcalc.executor.faults import is_memory
from kvcalc.executor.microbench import Reading
from kvcalc.executor.numerics import Numerics
from kvcalc.executor.points import Predictor, compare, contexts_of, decoder_for, measure_point, memory_of
from kvcalc.executor.quiet import Patience
from kvcalc.executor.timing import Bench
from kvcalc.executor.weights import Weights
from kvcalc.results.base import Figure
from kvcalc.results.calibrate import Tiling
from kvcalc.results.run import Memory, RunPoint
from kvcalc.units import format_bytes

ROOM = 0.95  # of the free memory


@dataclass(frozen=True)
class Grid:
    """The points that were asked for, and how."""

    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    page_size: int
    ragged: bool
    patience_s: float
    progress: Progress


@dataclass(frozen=True)
class Rig:
    """What every point is measured with."""

    bench: Bench
    weights: Weights
    numerics: Numerics
    tiling: Tiling | None  # of the attention kernel, as calibrated
    at: Predictor
    beside: Beside | None


@dataclass
class Found:
    """What the points gave, and what is to be said of those that gave nothing."""

    points: list[RunPoint] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def measure_grid(rig: Rig, grid: Grid) -> Found:
    """Every batch and context; one that does not fit is left out, and said.

    Raises:
        KvcalcError: none fits.
    """
    todo = [(batch, context) for batch in grid.batches for context in grid.contexts]
    reading, found = Reading(rig.bench), Found()
    for index, (batch, context) in enumerate(todo):
        grid.progress(f"batch {batch}, context {context}", 0.35 + 0.65 * index / len(todo))
        rig.bench.patience = Patience(grid.patience_s / len(todo))  # each its own, whatever calibrating has used
        gc.collect()
        needed, free = _cache_of(rig.at, batch, context, grid), rig.bench.device.free_bytes()
        if needed > ROOM * free:
            room = f"its cache of {format_bytes(needed)} does not fit in {format_bytes(free)} of free memory"
            found.said.append(f"batch {batch} at context {context} is left out: {room}")
            continue
        try:
            _point(rig, found, reading, (batch, context), grid)
        except Exception as error:
            if not is_memory(error):
                raise
            found.said.append(f"batch {batch} at context {context} is left out: the device ran out of memory")
    if not found.points:
        raise KvcalcError(f"no point fits: {found.said[-1]}", hint="a smaller --batch or --context, or --layers N")
    grid.progress("done", 1.0)
    return found


def _cache_of(at: Predictor, batch: int, context: int, grid: Grid) -> int:
    return cache_bytes(at.cut, contexts_of(batch, context, grid.ragged), grid.page_size, at.cut.dtype)


def _point(rig: Rig, found: Found, reading: Reading, point: tuple[int, int], grid: Grid) -> None:
    (batch, context), at = point, rig.at
    contexts = contexts_of(batch, context, grid.ragged)
    decoder = decoder_for(rig.bench, rig.weights, rig.numerics, contexts, grid.page_size, rig.tiling)
    measured = measure_point(rig.bench, decoder, reading, at.calibration, rig.beside)
    found.points += compare(measured, at, batch, context)
    found.memories.append(memory_of(decoder, at, contexts))
    for term in at.terms(at.cut, batch, context, measured.constants).values():
        found.figures += [term.figure, *term.bounds]
    if not measured.same_tokens:
        found.said.append(
            f"batch {batch} at context {context}: the timed step gives other tokens than the verified one"
        )
