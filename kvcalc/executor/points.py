"""One batch and context after the other: the whole step, the step with terms left out, and both against prediction."""

import gc
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass

from kvcalc.answers.device.prediction import Term, cache_bytes, predict
from kvcalc.counting import work
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.executor.beside import Beside
from kvcalc.executor.cache import Cache, windows_of
from kvcalc.executor.loop import Decoder, Manner, Step, captured
from kvcalc.executor.microbench import Reading, drawn
from kvcalc.executor.numerics import Numerics
from kvcalc.executor.pages import pages_held
from kvcalc.executor.quiet import OTHERS, Others, moved
from kvcalc.executor.timing import Bench, Sample, worst
from kvcalc.executor.weights import Weights
from kvcalc.results.calibrate import CalibrateResult, Tiling
from kvcalc.results.run import Memory, RunPoint, TermName
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

TRIES = 4  # of a point whose device did not stay the same


@dataclass(frozen=True)
class Predictor:
    """What is predicted from: the trimmed model and the whole one, data sheet and measured rates, constants."""

    cut: ModelSpec
    whole: ModelSpec
    sheet: GpuSpec
    ceilings: GpuSpec
    calibration: CalibrateResult
    page_size: int

    def terms(self, model: ModelSpec, batch: int, context: int, constants: CalibrateResult) -> dict[TermName, Term]:
        """The prediction of a step from these constants."""
        return predict(
            model,
            self.sheet,
            self.ceilings,
            constants,
            work.Step(decode=batch, context=context),
            self.page_size,
        )


@dataclass(frozen=True)
class Measured:
    """Windows of the three steps, whether the device stayed the same, and its constants meanwhile."""

    samples: dict[str, Sample]
    quiet: bool
    constants: CalibrateResult
    same_tokens: bool = True  # the step as it is timed, a graph on a GPU, gives the tokens of the verified one


def contexts_of(batch: int, context: int, ragged: bool) -> list[int]:
    """All equal; or in pairs, one as much above the mean as the other is below.

    >>> sum(contexts_of(5, 100, ragged=True))
    500
    """
    if not ragged:
        return [context] * batch
    draw = random.Random(0)
    found: list[int] = []
    for _ in range(batch // 2):
        apart = draw.randrange(context // 2 + 1)
        found += [context - apart, context + apart]
    return found + [context] * (batch % 2)


def decoder_for(
    bench: Bench, weights: Weights, numerics: Numerics, contexts: Iterable[int], page_size: int, tiling: Tiling | None
) -> Decoder:
    """A batch of these contexts on pages that are exactly enough, full of noise."""
    gc.collect()  # what the last one left must not stand in the way of this one's cache
    contexts, shape, device = list(contexts), weights.shape, bench.device
    pages = [sum(pages_held(context, page_size, window) for context in contexts) for window in windows_of(shape)]
    cache = Cache(shape, pages, page_size, weights.embedding.dtype, device.torch)
    cache.fill(drawn())
    decoder = Decoder(weights, cache, device, len(contexts), max(contexts), Manner(numerics, tiling=tiling))
    decoder.place(cache.pages.start(context) for context in contexts)
    return decoder


def measure_point(
    bench: Bench, decoder: Decoder, reading: Reading, calibration: CalibrateResult, beside: Beside | None
) -> Measured:
    """Whole step, step without attention, and without products too; again while the device is not what it was.

    At least once more, then as long as patience lasts; what is kept is the try that was disturbed least.

    Args:
        calibration: what the device was.
        beside: benchmarks to run in turn with the steps; None: the constants are those of the calibration.
    """
    batch = decoder.tokens.numel()
    no_attention, bare = decoder.without("attention"), decoder.without("attention", "linears")
    steps = {
        "step": captured(decoder.step, bench.device),
        "no attention": captured(lambda: decoder.step(no_attention), bench.device),
        "bare": captured(lambda: decoder.step(bare), bench.device),
    }
    same = not bench.device.is_gpu or same_tokens(decoder, steps["step"])
    more = beside.steps(batch) if beside is not None else {}
    assert not more.keys() & steps.keys()
    best, least = Measured({}, False, calibration, same), float("inf")
    for attempt in range(TRIES):
        if attempt > 1 and bench.patience.left <= 0:
            break
        start = time.monotonic()
        bench.wait()
        others, before = Others(bench.device), reading.bandwidth()
        samples = bench.together({**steps, **more}, tries=1)
        bandwidths = calibration.read_bandwidth_bytes_per_s, before, reading.bandwidth()
        share = others.share()
        constants = beside.constants(batch, samples) if beside is not None else calibration
        if not moved(*bandwidths) and share <= OTHERS:
            return Measured(samples, True, constants, same)
        strayed = max(bandwidths) / min(bandwidths) * (1 + share) * worst(samples)
        if strayed < least:
            best, least = Measured(samples, False, constants, same), strayed
        bench.patience.left -= time.monotonic() - start
    return best


def same_tokens(decoder: Decoder, timed: Step) -> bool:
    """Whether the step that is timed and the plain one, which is verified, give the same tokens from the same ones."""
    given = decoder.tokens.tolist()
    decoder.step()
    wanted = decoder.tokens.tolist()
    decoder.feed(given)
    timed()
    found = decoder.tokens.tolist()
    decoder.feed(given)
    return bool(found == wanted)


def compare(measured: Measured, at: Predictor, batch: int, context: int) -> list[RunPoint]:
    """The terms of a point: weights and cache are what leaving them out saved, overhead is what then remains."""
    whole, no_attention, bare = (measured.samples[name] for name in ("step", "no attention", "bare"))
    weights, kv = no_attention.less(bare), whole.less(no_attention)
    seconds: dict[TermName, float] = {
        "step": whole.value, "weights": weights.positive, "kv": kv.positive, "overhead": bare.value
    }  # fmt: skip
    resolved = {"step": True, "weights": weights.resolved, "kv": kv.resolved, "overhead": True}
    spreads = {"step": whole, "weights": no_attention, "kv": whole, "overhead": bare}
    read = at.calibration.read_bandwidth_bytes_per_s
    constants = measured.constants
    full = None
    if at.whole.layers > at.cut.layers:
        full = at.terms(at.whole, batch, context, constants)["step"].estimate_s.value
    undrifted = at.terms(at.cut, batch, context, at.calibration)
    found = []
    for name, term in at.terms(at.cut, batch, context, constants).items():
        ratio = seconds[name] / term.estimate_s.value
        found.append(
            RunPoint(
                batch=batch,
                context=context,
                term=name,
                bytes=term.bytes,
                bound_s=term.bound_s,
                ceiling_s=term.ceiling_s,
                estimate_s=term.estimate_s,
                measured_s=seconds[name],
                ratio=ratio,
                drift=term.estimate_s.value / undrifted[name].estimate_s.value,
                spread=spreads[name].spread,
                resolved=resolved[name],
                bandwidth_bytes_per_s=term.bytes / seconds[name] if term.bytes and resolved[name] else None,
                bandwidth_share=term.bytes / seconds[name] / read if term.bytes and resolved[name] else None,
                quiet=measured.quiet,
                full_model_s=full * ratio if full is not None and name == "step" else None,
            )
        )
    return found


def memory_of(decoder: Decoder, at: Predictor, contexts: Iterable[int]) -> Memory:
    """Bytes of weights and cache, predicted from the spec and as allocated."""
    weights, cache = decoder.model.weights.bytes, decoder.model.cache.bytes
    wanted_weights = counted_weight_bytes(at.cut)
    wanted_cache = cache_bytes(at.cut, contexts, at.page_size, at.cut.dtype)
    return Memory(
        predicted_bytes=wanted_weights + wanted_cache,
        measured_bytes=weights + cache,
        predicted_weight_bytes=wanted_weights,
        measured_weight_bytes=weights,
        predicted_cache_bytes=wanted_cache,
        measured_cache_bytes=cache,
    )
