"""Small benchmarks of what a layer does besides products: attention over pages, and the pieces between."""

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from kvcalc.errors import KvcalcError
from kvcalc.executor.attention import Attend, Prepare, attend_pages, prepare_pages
from kvcalc.executor.attention_triton import STAGES, TritonAttention
from kvcalc.executor.cache import Cache
from kvcalc.executor.device import torch_dtype
from kvcalc.executor.fit import affine, fit
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Decoder, captured
from kvcalc.executor.microbench import Stream, copies, drawn, noise
from kvcalc.executor.pages import check_page_size
from kvcalc.executor.shape import Shape
from kvcalc.executor.timing import Bench, Sample
from kvcalc.executor.weights import empty_weights
from kvcalc.reports.calibrate import AttentionRow, GlueRow

if TYPE_CHECKING:
    import torch

# Batches and contexts of attention; KV heads of each sequence.
CACHES = {"cpu": ((1, 320), (3, 704), (5, 1600), (10, 2880)), "cuda": ((3, 1600), (12, 3520), (24, 6720), (80, 6720))}
KV_HEADS = 4
# Layers, hidden size, MLP width, vocabulary of decoders whose products and attention are left out.
SKELETONS = ((2, 768, 2304, 6000), (6, 768, 2304, 20000), (2, 2560, 7680, 50000))
SKELETON_ROWS = (1, 6, 24, 48)


@dataclass(frozen=True)
class Heads:
    """The shape of heads and pages that attention is measured for, and whether queries and keys are normalised."""

    dtype: str
    group: int
    head_dim: int
    page_size: int
    qk_norm: bool = False

    def check(self) -> None:
        """Raises KvcalcError where the executor has no such type, heads or pages."""
        torch_dtype(self.dtype)
        check_page_size(self.page_size)
        if not 1 <= self.group <= 1024:
            raise KvcalcError(f"--group {self.group}", hint="1 to 1024 query heads of one KV head")
        if not (2 <= self.head_dim <= 1024 and self.head_dim % 2 == 0):
            raise KvcalcError(f"--head-dim {self.head_dim}", hint="an even number up to 1024: 64, 128")


def attention_row(bench: Bench, heads: Heads) -> tuple[AttentionRow, Sample]:
    """Latency and bandwidth of attention for one shape of heads, at the best depth of the kernel's pipeline."""
    depths = STAGES if bench.device.is_gpu and heads.group > 1 else (None,)
    rows = [_attention(bench, heads, stages) for stages in depths]
    return max(rows, key=lambda row: row[0].bandwidth_bytes_per_s)


def _attention(bench: Bench, heads: Heads, stages: int | None) -> tuple[AttentionRow, Sample]:
    sizes, times, samples = [], [], []
    for batch, context in CACHES[bench.device.kind]:
        pages = -(-context // heads.page_size)
        tokens = context if bench.device.is_gpu else pages * heads.page_size  # a CPU reads whole pages
        nbytes = 2 * batch * tokens * KV_HEADS * heads.head_dim * torch_dtype(heads.dtype).itemsize
        seconds, sample = _attend(bench, heads, batch, context, copies(bench.device, nbytes), stages)
        times.append(seconds)
        samples.append(sample)
        sizes.append(float(nbytes))
    latency, bandwidth, error = affine(sizes, times)
    row = AttentionRow(
        dtype=heads.dtype,
        group=heads.group,
        head_dim=heads.head_dim,
        page_size=heads.page_size,
        stages=stages,
        latency_s=latency,
        bandwidth_bytes_per_s=bandwidth,
        error=error,
    )
    return row, max(samples, key=lambda sample: sample.spread)


def _attend(
    bench: Bench, heads: Heads, batch: int, context: int, layers: int, stages: int | None
) -> tuple[float, Sample]:
    """One layer's attention, over as many layers' caches as are rotated."""
    device, query_heads = bench.device, KV_HEADS * heads.group
    shape = Shape(1, 1, query_heads, KV_HEADS, heads.head_dim, 1, (None,) * layers)
    pages = -(-context // heads.page_size)
    cache = Cache(shape, [batch * pages], heads.page_size, torch_dtype(heads.dtype), device.torch)
    cache.fill(drawn())
    (view,) = cache.views(batch, pages)
    cache.show([cache.pages.start(context) for _ in range(batch)], [view])
    queries = noise(device, batch, query_heads, heads.head_dim, dtype=heads.dtype)
    kernel = TritonAttention(batch, KV_HEADS, heads.group, device.torch, stages)
    prepare: Prepare = kernel.prepare if device.is_gpu else prepare_pages
    attend: Attend = kernel if device.is_gpu else attend_pages

    prepared = prepare(view, queries.dtype)
    stream = Stream(bench, heads.dtype, batch)

    def step() -> None:
        for keys, values in cache.layers:
            stream()
            attend(queries, keys, values, view, prepared)

    seconds, sample = stream.taken_off(step, layers)
    return seconds / layers, sample


def glue_rows(bench: Bench, dtype: str, qk_norm: bool) -> tuple[tuple[GlueRow, ...], Sample]:
    """The pieces between products, from decoders that have nothing else: by themselves, and with weights between."""
    samples: list[Sample] = []
    rows = []
    for cold in (False, True):
        columns: tuple[list[float], ...] = ([], [], [], [])
        times = []
        for (layers, hidden, width, vocab), batch in product(SKELETONS, SKELETON_ROWS):
            shape = Shape(hidden, vocab, hidden // 64, hidden // 256, 64, width, (None,) * layers, qk_norm=qk_norm)
            seconds, sample = _skeleton(bench, dtype, shape, batch, cold)
            samples.append(sample)
            times.append(seconds)
            size = torch_dtype(dtype).itemsize
            moved = batch * (4 * hidden + 2 * shape.q_width + 3 * width) * size  # as counting.operators has it
            for column, value in zip(columns, (1, layers, layers * moved, batch * vocab * size), strict=True):
                column.append(float(value))
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
                error=error,
            )
        )
    return tuple(rows), max(samples, key=lambda sample: sample.spread)


def _skeleton(bench: Bench, dtype: str, shape: Shape, rows: int, cold: bool) -> tuple[float, Sample]:
    device, kind = bench.device, torch_dtype(dtype)
    weights = empty_weights(shape, kind, device.torch)  # the matrices are never touched
    for tensor in (weights.embedding, weights.final_norm, *(norm for layer in weights.layers for norm in layer.norms)):
        tensor.fill_(1)
    cache = Cache(shape, [rows], 64, kind, device.torch)
    decoder = Decoder(weights, cache, device, rows, 64)
    decoder.place(cache.pages.start(33) for _ in range(rows))
    bare = decoder.without("attention", "linears")
    if not cold:
        sample = bench.measure(captured(lambda: decoder.step(bare), device))
        return sample.value, sample
    stream, blank = Stream(bench, dtype, rows), bare.apply

    def apply(linear: Linear, x: "torch.Tensor") -> "torch.Tensor":
        stream()
        return blank(linear, x)

    streaming = replace(bare, apply=apply)
    return stream.taken_off(lambda: decoder.step(streaming), 4 * shape.layers + 1)
