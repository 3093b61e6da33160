"""Small benchmarks of what a layer does besides products: attention over pages, and the pieces between."""

from dataclasses import dataclass
from itertools import product

from kvcalc.executor.attention import Attend, Prepare, attend_pages, prepare_pages
from kvcalc.executor.attention_triton import STAGES, TritonAttention
from kvcalc.executor.cache import Cache
from kvcalc.executor.device import torch_dtype
from kvcalc.executor.fit import fit
from kvcalc.executor.loop import Decoder, captured
from kvcalc.executor.microbench import copies, drawn, noise
from kvcalc.executor.shape import Shape
from kvcalc.executor.timing import Bench, Sample
from kvcalc.executor.weights import empty_weights
from kvcalc.reports.calibrate import AttentionRow, GlueRow

# Batches and contexts of attention; KV heads of each sequence.
CACHES = {"cpu": ((1, 320), (3, 704), (5, 1600), (10, 2880)), "cuda": ((3, 1600), (12, 3520), (24, 6720), (80, 6720))}
KV_HEADS = 4
# Layers, hidden size, MLP width, vocabulary of decoders whose products and attention are left out.
SKELETONS = ((2, 768, 2304, 6000), (6, 768, 2304, 20000), (2, 2560, 7680, 50000))
SKELETON_ROWS = (1, 6, 24, 48)


@dataclass(frozen=True)
class Heads:
    """The shape of heads and pages that attention is measured for."""

    dtype: str
    group: int
    head_dim: int
    page_size: int


def attention_row(bench: Bench, heads: Heads) -> tuple[AttentionRow, Sample]:
    """Latency and bandwidth of attention for one shape of heads, at the best depth of the kernel's pipeline."""
    depths = STAGES if bench.device.is_gpu and heads.group > 1 else (None,)
    rows = [_attention(bench, heads, stages) for stages in depths]
    return max(rows, key=lambda row: row[0].bandwidth_bytes_per_s)


def _attention(bench: Bench, heads: Heads, stages: int | None) -> tuple[AttentionRow, Sample]:
    sizes, samples = [], []
    for batch, context in CACHES[bench.device.kind]:
        pages = -(-context // heads.page_size)
        tokens = context if bench.device.is_gpu else pages * heads.page_size  # a CPU reads whole pages
        nbytes = 2 * batch * tokens * KV_HEADS * heads.head_dim * torch_dtype(heads.dtype).itemsize
        samples.append(_attend(bench, heads, batch, context, copies(bench.device, nbytes), stages))
        sizes.append(float(nbytes))
    (latency, per_byte), error = fit([[1.0] * len(sizes), sizes], [sample.value for sample in samples])
    row = AttentionRow(
        dtype=heads.dtype,
        group=heads.group,
        head_dim=heads.head_dim,
        page_size=heads.page_size,
        stages=stages,
        latency_s=latency,
        bandwidth_bytes_per_s=1 / per_byte,
        error=error,
    )
    return row, max(samples, key=lambda sample: sample.spread)


def _attend(bench: Bench, heads: Heads, batch: int, context: int, layers: int, stages: int | None) -> Sample:
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

    def step() -> None:
        prepared = prepare(view, queries.dtype)
        for keys, values in cache.layers:
            attend(queries, keys, values, view, prepared)

    return bench.measure(captured(step, device)).per(layers)


def glue_row(bench: Bench, dtype: str) -> tuple[GlueRow, Sample]:
    """The pieces between products, from decoders that have nothing else."""
    columns: tuple[list[float], ...] = ([], [], [], [])
    samples = []
    size = torch_dtype(dtype).itemsize
    for (layers, hidden, width, vocab), rows in product(SKELETONS, SKELETON_ROWS):
        shape = Shape(hidden, vocab, hidden // 64, hidden // 256, 64, width, (None,) * layers)
        samples.append(_skeleton(bench, dtype, shape, rows))
        moved = rows * (4 * hidden + 2 * shape.q_width + 3 * width) * size  # as counting.operators has it
        for column, value in zip(columns, (1, layers, layers * moved, rows * vocab * size), strict=True):
            column.append(float(value))
    (step_s, layer_s, per_byte, per_logit), error = fit(columns, [sample.value for sample in samples])
    row = GlueRow(
        dtype=dtype,
        step_s=step_s,
        layer_s=layer_s,
        bandwidth_bytes_per_s=1 / per_byte if per_byte else None,
        sampler_bandwidth_bytes_per_s=1 / per_logit if per_logit else None,
        error=error,
    )
    return row, max(samples, key=lambda sample: sample.spread)


def _skeleton(bench: Bench, dtype: str, shape: Shape, rows: int) -> Sample:
    device, kind = bench.device, torch_dtype(dtype)
    weights = empty_weights(shape, kind, device.torch)  # the matrices are never touched
    for tensor in (weights.embedding, weights.final_norm, *(norm for layer in weights.layers for norm in layer.norms)):
        tensor.fill_(1)
    cache = Cache(shape, [rows], 64, kind, device.torch)
    decoder = Decoder(weights, cache, device, rows, 64)
    decoder.place(cache.pages.start(33) for _ in range(rows))
    bare = decoder.without("attention", "linears")
    return bench.measure(captured(lambda: decoder.step(bare), device))
