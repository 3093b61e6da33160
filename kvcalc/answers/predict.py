"""What a decode step of the executor should take: from a data sheet, from measured ceilings, and from constants that
small benchmarks gave. The counts are those of every other command; nothing here was fitted to a whole step.

    weights   Σ products: latency + bytes / bandwidth, both at this number of rows
    kv        Σ layers: latency + bytes of the pages / bandwidth
    overhead  norms, rotary, gate, sampler: a step, the layers, and what they move
"""

from collections.abc import Iterable

from kvcalc.counting.cache import cache_profile, element_bytes
from kvcalc.counting.operator import Operator
from kvcalc.counting.operators import decode_step
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.formulas.paging import blocks_for_tokens
from kvcalc.reports.base import Range
from kvcalc.reports.calibrate import AttentionRow, CalibrateResult, GlueRow, LinearRow
from kvcalc.reports.run import TermName
from kvcalc.specs.base import Frozen
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import Attention, ModelSpec
from kvcalc.timing.roofline import bound

# Of the step's estimate: where 80 % of measurements of unseen points fell (docs/explanation/executor.md).
LOW, HIGH = 0.8, 1.25


class Term(Frozen):
    """One part of a step: what it reads, its two bounds and its estimate."""

    bytes: float
    bound_s: float
    ceiling_s: float
    estimate_s: Range


def trimmed(model: ModelSpec, layers: int | None) -> ModelSpec:
    """The model with its first `layers` layers only; None: all. Draft layers are left out.

    Raises:
        KvcalcError: it has fewer.
    """
    layers = model.layers if layers is None else layers
    if not 1 <= layers <= model.layers:
        raise KvcalcError(f"--layers {layers}: {model.name} has {model.layers}", hint="give fewer, or leave it out")
    groups = (
        group.model_copy(update={"layers": tuple(index for index in group.layers if index < layers)})
        for group in model.groups
    )
    kept = tuple(group for group in groups if group.layers)
    return model.model_copy(update={"groups": kept, "mtp": (), "weight_file_bytes": None, "file_parameters": None})


def weight_bytes(model: ModelSpec) -> int:
    """Bytes of the weights that the executor holds."""
    return counted_weight_bytes(model)


def cache_bytes(model: ModelSpec, contexts: Iterable[int], page_size: int, dtype: str) -> int:
    """Bytes of the pages that sequences of these contexts hold; those that windows have left are given back.

    Args:
        contexts: tokens of each sequence.
        page_size: tokens of a page.
        dtype: element type of the cache.
    """
    groups = cache_profile(model, dtype).groups
    total = 0.0
    for context in contexts:
        for group in groups:
            behind = 0 if group.window is None else max(0, context - group.window) // page_size
            pages = blocks_for_tokens(context, page_size) - behind
            total += pages * page_size * group.bytes_per_token
    return int(total)


def predict(
    model: ModelSpec, sheet: GpuSpec, ceilings: GpuSpec, measured: CalibrateResult, *, batch: int, context: int,
    dtype: str, page_size: int,
) -> dict[TermName, Term]:  # fmt: skip
    """The terms of a step of `batch` sequences of `context` tokens, the token of this step included.

    Args:
        sheet: the data sheet.
        ceilings: the calibration as a spec.
        measured: the calibration, with rows for this dtype and these heads.
        dtype: element type of weights and cache.
        page_size: tokens of a page.
    """
    operators = decode_step(model, batch=batch, context=context, cache_dtype=dtype)
    gemms = tuple(one for one in operators if one.kind == "gemm")
    attention = tuple(one for one in operators if one.kind == "attention")
    glue = tuple(one for one in operators if one.kind in ("elementwise", "embedding"))
    times = {
        "weights": sum(one.count * _gemm(one, model, measured, dtype) for one in gemms),
        "kv": _attention(model, measured, batch, context, dtype, page_size),
        "overhead": _overhead(glue, model, measured, batch, dtype),
    }
    times["step"] = sum(times.values())
    parts: dict[TermName, tuple[Operator, ...]] = {
        "step": (*gemms, *attention), "weights": gemms, "kv": attention, "overhead": ()
    }  # fmt: skip
    return {
        name: Term(
            bytes=float(sum(one.count * (one.weight_bytes + one.cache_bytes) for one in members)),
            bound_s=float(bound(members, sheet).time_s) if members else 0.0,
            ceiling_s=float(bound(members, ceilings).time_s) if members else 0.0,
            estimate_s=Range(value=times[name], low=LOW * times[name], high=HIGH * times[name]),
        )
        for name, members in parts.items()
    }


def _gemm(operator: Operator, model: ModelSpec, measured: CalibrateResult, dtype: str) -> float:
    """Seconds of one product: between the measured numbers of rows the time grows evenly."""
    rows = sorted((row for row in measured.linear_rows if row.dtype == dtype), key=lambda row: row.rows)
    plain = model.tied_embeddings and operator.name == "head"  # a table that is looked up too keeps its order
    size = float(operator.weight_bytes)

    def at(row: LinearRow) -> float:
        if plain and row.plain_bandwidth_bytes_per_s is not None:
            return size / row.plain_bandwidth_bytes_per_s
        return row.latency_s + size / row.bandwidth_bytes_per_s

    wanted = int(operator.rows)
    above = next((index for index, row in enumerate(rows) if row.rows >= wanted), len(rows) - 1)
    if above == 0 or rows[above].rows == wanted:
        return at(rows[above])
    lower, upper = rows[above - 1], rows[above]
    slope = (at(upper) - at(lower)) / (upper.rows - lower.rows)
    return at(lower) + max(0.0, slope) * (wanted - lower.rows)


def _attention(
    model: ModelSpec, measured: CalibrateResult, batch: int, context: int, dtype: str, page_size: int
) -> float:
    """A CPU reads whole pages, a GPU the tokens alone."""
    total = 0.0
    for group in model.groups:
        for mixer in group.mixers:
            assert isinstance(mixer, Attention)
            row = _row(measured, mixer, dtype, page_size)
            tokens = context if mixer.window is None else min(context, mixer.window)
            if measured.kind == "cpu":
                behind = context - tokens
                tokens = (blocks_for_tokens(context, page_size) - behind // page_size) * page_size
            size = batch * tokens * 2 * mixer.kv_heads * mixer.head_dim * element_bytes(dtype)
            total += group.count * (row.latency_s + size / row.bandwidth_bytes_per_s)
    return total


def _row(measured: CalibrateResult, mixer: Attention, dtype: str, page_size: int) -> AttentionRow:
    wanted = (dtype, mixer.query_heads // mixer.kv_heads, mixer.head_dim, page_size)
    for row in measured.attention_rows:
        if (row.dtype, row.group, row.head_dim, row.page_size) == wanted:
            return row
    raise KvcalcError(f"the calibration has no attention for {wanted}", hint="run calibrates what it lacks")


def _overhead(
    operators: Iterable[Operator], model: ModelSpec, measured: CalibrateResult, batch: int, dtype: str
) -> float:
    row: GlueRow = next(row for row in measured.glue_rows if row.dtype == dtype)
    total = row.step_s + row.layer_s * model.layers
    if row.bandwidth_bytes_per_s:
        total += sum(one.count * float(one.bytes) for one in operators) / row.bandwidth_bytes_per_s
    if row.sampler_bandwidth_bytes_per_s:
        total += batch * model.vocab * element_bytes(dtype) / row.sampler_bandwidth_bytes_per_s
    return total
