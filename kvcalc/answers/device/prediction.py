"""What a decode step of the executor should take: from a data sheet, from measured ceilings, and from constants that
small benchmarks gave. The counts are those of every other command; nothing here was fitted to a whole step.

    weights   products: latency of each + bytes / bandwidth, both as measured for this number of rows; and what the
              rest takes longer because weights pass through the caches in between
    kv        attention: latency of each layer + bytes of the pages / bandwidth
    overhead  norms, rotary, gate, sampler: once a step, of each layer, and what they move
"""

from collections.abc import Iterable, Mapping

from kvcalc.answers.device.constants import attention_at, glue_at, glue_seconds, linear_at
from kvcalc.answers.explain import figure_of
from kvcalc.counting.arrays import single
from kvcalc.counting.cache import cache_profile, element_bytes
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Operator, Step
from kvcalc.errors import KvcalcError
from kvcalc.formulas.paging import blocks_for_tokens
from kvcalc.results.base import Figure, Range
from kvcalc.results.calibrate import CalibrateResult
from kvcalc.results.run import TermName
from kvcalc.specs.base import Frozen, replace
from kvcalc.specs.deployment import Layout
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import Attention, ModelSpec
from kvcalc.timing.roofline import bound

# Of an estimate: where all whole steps of the recorded runs and four in five of their terms were measured
# (docs/explanation/executor.md).
LOW, HIGH = 0.8, 1.25
QK_NORM = "self_attn.q_norm.weight"
SOURCE = "small benchmarks on this device"


class Term(Frozen):
    """One part of a step: what it reads, its two bounds, and its estimate with the working."""

    bytes: float
    bound_s: float
    ceiling_s: float
    estimate_s: Range
    figure: Figure
    bounds: tuple[Figure, ...] = ()  # at the data sheet's rates, and at the measured ones


def trimmed(model: ModelSpec, layers: int | None) -> ModelSpec:
    """The model with its first `layers` layers only; None: all. Draft layers are left out.

    Raises:
        KvcalcError: it has fewer.
    """
    layers = model.layers if layers is None else layers
    if not 1 <= layers <= model.layers:
        raise KvcalcError(f"--layers {layers}: {model.name} has {model.layers}", hint="give fewer, or leave it out")
    groups = (replace(group, layers=tuple(index for index in group.layers if index < layers)) for group in model.groups)
    kept = tuple(group for group in groups if group.layers)
    return replace(model, groups=kept, mtp=(), weight_file_bytes=None, file_parameters=None)


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
    model: ModelSpec,
    sheet: GpuSpec,
    ceilings: GpuSpec,
    measured: CalibrateResult,
    step: Step,
    page_size: int,
) -> dict[TermName, Term]:
    """The terms of a decode step; its context has the token of this step, too.

    Args:
        sheet: the data sheet.
        ceilings: the calibration as a spec.
        measured: the calibration, with rows for this model's dtype and heads.
        page_size: tokens of a page.
    """
    batch, context = int(single(step.decode)), int(single(step.context))
    operators = step_operators(model, Layout(), step, model.dtype)
    gemms = tuple(one for one in operators if one.kind == "gemm")
    attention = tuple(one for one in operators if one.kind == "attention")
    figures = {
        "weights": _weights(operators, model, measured, batch),
        "kv": _attention(model, measured, batch, context, page_size),
        "overhead": _glue(operators, model, measured, batch, cold=False),
    }
    seconds = {f"{name}_s": float(figure.value or 0) for name, figure in figures.items()}
    figures["step"] = _figure("weights_s + kv_s + overhead_s", sum(seconds.values()), seconds)
    parts: dict[TermName, tuple[Operator, ...]] = {
        "step": (*gemms, *attention),
        "weights": gemms,
        "kv": attention,
        "overhead": (),
    }
    where = f"batch {batch}, context {context}"
    return {
        name: Term(
            bytes=float(sum(one.count * (one.weight_bytes + one.cache_bytes) for one in members)),
            bound_s=float(bound(members, sheet).time_s) if members else 0.0,
            ceiling_s=float(bound(members, ceilings).time_s) if members else 0.0,
            estimate_s=_range(float(figures[name].value or 0)),
            figure=replace(figures[name], name=f"{name}, {where}"),
            bounds=_bounds(members, f"{name}, {where}", {"bound": sheet, "ceiling": ceilings}),
        )
        for name, members in parts.items()
    }


def _bounds(members: Iterable[Operator], where: str, rates: Mapping[str, GpuSpec]) -> tuple[Figure, ...]:
    """The working of a term's bounds; none where it reads nothing."""
    found = {name: (bound(members, gpu), gpu.memory_bandwidth_bytes_per_s) for name, gpu in rates.items()}
    return tuple(
        figure_of(
            f"{name}, {where}",
            "max(bytes / bandwidth_bytes_per_s, flops / peak_flops)",
            {
                "bytes": float(one.bytes),
                "bandwidth_bytes_per_s": bandwidth,
                "flops": float(one.flops),
                "peak_flops": float(one.flops) / float(one.compute_time_s),
            },
            "s",
            "data sheet" if name == "bound" else SOURCE,
        )
        for name, (one, bandwidth) in found.items()
        if one.compute_time_s
    )


def _range(value: float) -> Range:
    return Range(value=value, low=LOW * value, high=HIGH * value)


def _figure(formula: str, value: float, inputs: dict[str, float]) -> Figure:
    return Figure(name="", value=value, unit="s", formula=formula, inputs=dict(inputs), source=SOURCE)


def _weights(operators: Iterable[Operator], model: ModelSpec, measured: CalibrateResult, batch: int) -> Figure:
    """Every product at the constants of this number of rows, and what the glue loses by the weights between.

    A head that is also looked up keeps its usual order.
    """
    operators = tuple(operators)
    gemms = tuple(one for one in operators if one.kind == "gemm")
    row = linear_at(measured, model.dtype, batch)
    plain = row.plain_bandwidth_bytes_per_s if model.tied_embeddings else None
    usual = [one for one in gemms if plain is None or one.name != "head"]
    inputs = {
        "calls": float(sum(one.count for one in usual)),
        "latency_s": row.latency_s,
        "bytes": float(sum(one.count * one.weight_bytes for one in usual)),
        "bandwidth_bytes_per_s": row.bandwidth_bytes_per_s,
    }
    value = inputs["calls"] * row.latency_s + inputs["bytes"] / row.bandwidth_bytes_per_s
    formula = "calls * latency_s + bytes / bandwidth_bytes_per_s"
    if plain is not None:
        head = float(sum(one.count * one.weight_bytes for one in gemms if one.name == "head"))
        inputs |= {"head_bytes": head, "head_bandwidth_bytes_per_s": plain}
        value += head / plain
        formula += " + head_bytes / head_bandwidth_bytes_per_s"
    glue = [_glue(operators, model, measured, batch, cold=cold).value or 0.0 for cold in (True, False)]
    inputs["slower_glue_s"] = max(0.0, glue[0] - glue[1])
    value += inputs["slower_glue_s"]
    formula += " + slower_glue_s"
    return _figure(formula, value, inputs)


def _attention(model: ModelSpec, measured: CalibrateResult, batch: int, context: int, page_size: int) -> Figure:
    """A CPU reads whole pages, a GPU the tokens alone."""
    read, row = 0.0, None
    for group in model.groups:
        for mixer in group.mixers:
            assert isinstance(mixer, Attention)
            row = attention_at(measured, model.dtype, mixer.query_heads // mixer.kv_heads, mixer.head_dim, page_size)
            tokens = context if mixer.window is None else min(context, mixer.window)
            if measured.kind == "cpu":
                behind = context - tokens
                tokens = (blocks_for_tokens(context, page_size) - behind // page_size) * page_size
            size = batch * tokens * 2 * mixer.kv_heads * mixer.head_dim * element_bytes(model.dtype)
            read += group.count * size
    assert row is not None
    inputs = {
        "layers": float(model.layers),
        "latency_s": row.latency_s,
        "bytes": read,
        "bandwidth_bytes_per_s": row.bandwidth_bytes_per_s,
    }
    value = model.layers * row.latency_s + read / row.bandwidth_bytes_per_s
    return _figure("layers * latency_s + bytes / bandwidth_bytes_per_s", value, inputs)


def _glue(
    operators: Iterable[Operator], model: ModelSpec, measured: CalibrateResult, batch: int, *, cold: bool
) -> Figure:
    """Norms, rotary, gate and sampler."""
    normed = any(tensor.name == QK_NORM for group in model.groups for tensor in group.tensors)
    row = glue_at(measured, model.dtype, cold=cold, qk_norm=normed)
    moved = sum(one.count * float(one.bytes) for one in operators if one.kind in ("elementwise", "embedding"))
    logits = batch * model.vocab * float(element_bytes(model.dtype))
    inputs = {"step_s": row.step_s, "layers": float(model.layers), "layer_s": row.layer_s}
    formula = "step_s + layers * layer_s"
    if row.bandwidth_bytes_per_s:
        inputs |= {"bytes": moved, "bandwidth_bytes_per_s": row.bandwidth_bytes_per_s}
        formula += " + bytes / bandwidth_bytes_per_s"
    if row.sampler_bandwidth_bytes_per_s:
        inputs |= {"logit_bytes": logits, "sampler_bytes_per_s": row.sampler_bandwidth_bytes_per_s}
        formula += " + logit_bytes / sampler_bytes_per_s"
    return _figure(formula, glue_seconds(row, model.layers, moved, logits), inputs)
