"""Small benchmarks of what a layer does besides products: attention over pages, and the pieces between."""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from kvcalc.errors import KvcalcError
from kvcalc.executor.attention_triton import TritonAttention, tilings
from kvcalc.executor.device import Device, torch_dtype
from kvcalc.executor.fit import affine, fit
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Step, captured
from kvcalc.executor.microbench import Stream, copies, matrices
from kvcalc.executor.pages import check_page_size
from kvcalc.executor.shape import Shape
from kvcalc.executor.skeleton import skeleton, streaming
from kvcalc.executor.timing import Bench, Sample
from kvcalc.results.calibrate import AttentionRow, GlueRow, Tiling

# Batches and contexts of attention; KV heads of each sequence.
CACHES = {"cpu": ((1, 320), (3, 704), (5, 1600), (10, 2880)), "cuda": ((3, 1600), (12, 3520), (24, 6720), (80, 6720))}
KV_HEADS = 4
# Layers, hidden size, MLP width, vocabulary of decoders whose products and attention are left out.
SKELETONS = ((2, 768, 2304, 6000), (6, 768, 2304, 20000), (2, 2560, 7680, 50000))
SKELETON_ROWS = (1, 6, 40)
GLUE_CONTEXT = 33  # of sequences whose attention is left out
LEAST_LAYERS, LAYERS_SHARE = 8, 0.25  # of a GPU, and of its free memory at most
PRODUCTS = 4  # of a layer


@dataclass(frozen=True)
class Heads:
    """The shape of heads and pages that attention is measured for, and whether queries and keys are normalised."""

    dtype: str
    group: int
    head_dim: int
    page_size: int
    qk_norm: bool = False

    @property
    def shape(self) -> tuple[str, int, int, int]:
        """What attention is measured for."""
        return self.dtype, self.group, self.head_dim, self.page_size

    def check(self, device: Device | None = None) -> None:
        """Raises KvcalcError where the executor, or its kernels on this device, have no such type, heads or pages."""
        torch_dtype(self.dtype)
        check_page_size(self.page_size)
        if not 1 <= self.group <= 1024:
            raise KvcalcError(f"--group {self.group}", hint="1 to 1024 query heads of one KV head")
        if not (2 <= self.head_dim <= 1024 and self.head_dim % 2 == 0):
            raise KvcalcError(f"--head-dim {self.head_dim}", hint="an even number up to 1024: 64, 128")
        if device is not None and device.is_gpu and self.group > 1 and not 16 <= self.head_dim <= 256:
            hint = "16 to 256 where several queries share a KV head; --device cpu takes others"
            raise KvcalcError(f"heads of {self.head_dim} elements: the GPU's kernels have none such", hint=hint)


def attention_row(bench: Bench, heads: Heads) -> tuple[AttentionRow, Sample]:
    """Latency and bandwidth of attention for one shape of heads; on a GPU with the quickest tiles."""
    sizes, times, samples = [], [], []
    linears = matrices(bench.device, heads.dtype, 0)
    tiling = quickest_tiling(bench, heads, linears) if bench.device.is_gpu else None
    for batch, context in CACHES[bench.device.kind]:
        gc.collect()  # the last one's cache
        one = AttentionSteps(bench.device, heads, batch, context, tiling, linears)
        found = bench.together({name: captured(step, bench.device) for name, step in one.steps.items()})
        times.append(one.seconds(found))
        samples.append(found[AttentionSteps.WHOLE])
        sizes.append(attention_bytes(bench.device, heads, batch, context))
        del one
    return attention_of(heads, tiling, sizes, times), max(samples, key=lambda sample: sample.spread)


def quickest_tiling(bench: Bench, heads: Heads, linears: list[Linear]) -> Tiling:
    """Of all that are tried, the one that goes through the largest cache in the least time."""
    steps = AttentionSteps(bench.device, heads, *CACHES[bench.device.kind][-1], None, linears)
    times: dict[Tiling, float] = {}
    for tried in tilings(heads.head_dim, heads.group):
        attention, step = steps.tiled(tried)
        seconds = bench.glance(captured(step, bench.device)).value
        launched = attention.tiling or tried  # less deep where a block has too little memory
        times[launched] = min(seconds, times.get(launched, seconds))
    return min(times, key=times.__getitem__)


def attention_of(heads: Heads, tiling: Tiling | None, sizes: Sequence[float], times: Sequence[float]) -> AttentionRow:
    """Latency and bandwidth from the seconds that one layer's attention takes to read these bytes."""
    latency, bandwidth, error = affine(sizes, times)
    return AttentionRow(
        dtype=heads.dtype,
        group=heads.group,
        head_dim=heads.head_dim,
        page_size=heads.page_size,
        tiling=tiling,
        latency_s=latency,
        bandwidth_bytes_per_s=bandwidth,
        times_s=tuple(times),
        error=error,
    )


def attention_bytes(device: Device, heads: Heads, batch: int, context: int) -> float:
    """What one layer's attention reads; a CPU reads whole pages."""
    tokens = context if device.is_gpu else -(-context // heads.page_size) * heads.page_size
    return float(2 * batch * tokens * KV_HEADS * heads.head_dim * torch_dtype(heads.dtype).itemsize)


class AttentionSteps:
    """A decoder with and without its attention; the difference is what attention takes in a model."""

    WHOLE, WITHOUT = "small decoder", "small decoder without attention"

    def __init__(
        self, device: Device, heads: Heads, batch: int, context: int, tiling: Tiling | None, linears: list[Linear]
    ) -> None:  # fmt: skip
        """As many layers as it takes to rotate through the caches.

        Args:
            linears: matrices for the products between.
        """
        moved = attention_bytes(device, heads, batch, context) + PRODUCTS * linears[0].bytes
        self.layers = copies(device, moved)
        if device.is_gpu:  # two layers' attention would vanish among the launches of all else
            self.layers = max(self.layers, min(LEAST_LAYERS, int(device.free_bytes() * LAYERS_SHARE / moved)))
        _, hidden, width, vocab = SKELETONS[0]
        windows = (None,) * self.layers
        shape = Shape(hidden, vocab, KV_HEADS * heads.group, KV_HEADS, heads.head_dim, width, windows)
        self.decoder = decoder = skeleton(device, heads.dtype, shape, (batch, context), heads.page_size, tiling)
        stream = Stream(device, heads.dtype, batch, linears)
        whole = streaming(decoder, decoder.model, stream)
        without = streaming(decoder, decoder.without("attention"), stream)
        self._heads, self._whole = heads, whole
        self.steps: dict[str, Step] = {
            self.WHOLE: lambda: decoder.step(whole),
            self.WITHOUT: lambda: decoder.step(without),
        }

    def tiled(self, tiling: Tiling) -> tuple[TritonAttention, Step]:
        """The whole with other tiles of its attention."""
        decoder = self.decoder
        attention = TritonAttention(decoder.tokens.numel(), KV_HEADS, self._heads.group, decoder.device.torch, tiling)
        model = replace(self._whole, prepare=attention.prepare, attend=attention)
        return attention, lambda: decoder.step(model)

    def seconds(self, samples: Mapping[str, Sample]) -> float:
        """Of one layer's attention."""
        return samples[self.WHOLE].less(samples[self.WITHOUT]).positive / self.layers


def glue_rows(bench: Bench, dtype: str, qk_norm: bool) -> tuple[tuple[GlueRow, ...], Sample]:
    """The pieces between products, from decoders that have nothing else: by themselves, and with weights between."""
    samples: list[Sample] = []
    rows = []
    for cold in (False, True):
        columns: tuple[list[float], ...] = ([], [], [], [])
        times = []
        for (layers, hidden, width, vocab), batch in product(SKELETONS, SKELETON_ROWS):
            shape = skeleton_shape(layers, hidden, width, vocab, qk_norm)
            seconds, sample = _glue(bench, dtype, shape, batch, cold)
            samples.append(sample)
            times.append(seconds)
            for column, value in zip(columns, glue_columns(dtype, shape, batch), strict=True):
                column.append(value)
        (step_s, layer_s, per_byte, per_logit), error = fit(columns, times)
        rows.append(
            GlueRow(
                dtype=dtype,
                cold=cold,
                qk_norm=qk_norm,
                step_s=step_s,
                layer_s=layer_s,
                bandwidth_bytes_per_s=1 / per_byte if per_byte else None,
                sampler_bandwidth_bytes_per_s=1 / per_logit if per_logit else None,
                times_s=tuple(times),
                error=error,
            )
        )
    return tuple(rows), max(samples, key=lambda sample: sample.spread)


def glue_columns(dtype: str, shape: Shape, batch: int) -> tuple[float, float, float, float]:
    """What the constants of a GlueRow stand before: steps, layers, bytes of the layers' pieces, bytes of logits."""
    size = torch_dtype(dtype).itemsize
    moved = batch * (4 * shape.hidden + 2 * shape.q_width + 3 * shape.width) * size  # as counting.operators has it
    return 1.0, float(shape.layers), float(shape.layers * moved), float(batch * shape.vocab * size)


def skeleton_shape(layers: int, hidden: int, width: int, vocab: int, qk_norm: bool) -> Shape:
    """A decoder with heads of 64 and four queries a KV head."""
    return Shape(hidden, vocab, hidden // 64, hidden // 256, 64, width, (None,) * layers, qk_norm=qk_norm)


def _glue(bench: Bench, dtype: str, shape: Shape, rows: int, cold: bool) -> tuple[float, Sample]:
    device = bench.device
    decoder = skeleton(device, dtype, shape, (rows, GLUE_CONTEXT))
    bare = decoder.without("attention", "linears")
    if not cold:
        sample = bench.measure(captured(lambda: decoder.step(bare), device))
        return sample.value, sample
    stream = Stream(device, dtype, rows, matrices(device, dtype, 0))
    streamed = streaming(decoder, bare, stream)
    alone = stream.alone(PRODUCTS * shape.layers + 1)
    steps = {"alone": alone, "both": lambda: decoder.step(streamed)}
    found = bench.together({name: captured(step, device) for name, step in steps.items()})
    return found["both"].less(found["alone"]).positive, found["both"]
