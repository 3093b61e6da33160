"""llama.cpp's operators of many points as flat arrays, so that a fit evaluates all of them at once.

The formulas are the package's own (`timing.operators.ggml`); constants come as one number for every operator.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Operator
from kvcalc.specs.base import field_names
from kvcalc.specs.ggml import GgmlKernels
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators import ggml
from kvcalc.timing.operators.ggml_tiles import Tiles, woken_experts
from kvcalc.timing.peaks import arithmetic

KINDS = ("gemm", "experts", "prompt", "cache", "state", "other")
QUANTS = ("legacy", "k", "mx", "plain")
CACHE = ("attention", "latent_attention")


@dataclass(frozen=True)
class Flat:
    """One entry an operator: what it moves and computes, and where it belongs."""

    point: Any
    kind: Any
    quants: Any
    count: Any
    weights_s: Any  # at full bandwidth
    cache_s: Any
    moved_s: Any  # all bytes
    compute_s: Any  # at the full peak that the class follows
    attention_s: Any  # at the fp16 peak
    scores_s: Any  # one pass of the scores
    rows: Any
    tokens: Any  # of the step, where there are experts
    walked_s: Any  # of tokens that pass through a recurrent state after the first one, at the fp32 peak
    launches: Any
    flash: Any
    sixteens: Any  # formats with a scale for each 16 weights
    points: int


def flatten(parts: Sequence[tuple[int, float, Machine, Operator]], points: int, peak: str) -> Flat:
    """Arrays of (point, how often, machine, operator)."""
    columns = [_row(*part, peak) for part in parts]
    arrays = (np.array(column) for column in zip(*columns, strict=True))
    names = (one.name for one in fields(Flat) if one.name != "points")
    return Flat(points=points, **dict(zip(names, arrays, strict=True)))


def _row(point: int, often: float, machine: Machine, one: Operator, peak: str) -> tuple[Any, ...]:
    of = ggml.quants(one.format, one.bits)
    fp16 = arithmetic(machine.gpu, "fp16")[1]
    rate = arithmetic(machine.gpu, "fp16" if of == "plain" else peak)[1]
    rows: Quantity = one.rows
    tokens: Quantity = 1
    if one.experts is not None:
        rows, tokens = one.rows / one.experts.woken, one.experts.tokens
    attended = ggml.attention_flops(one, machine) if one.kind == "prefill_attention" else one.flops
    walked = (
        ggml.beyond_first(one.flops, one.context) / arithmetic(machine.gpu, "fp32")[1] if one.kind == "state" else 0
    )
    scores = attended / (4 * max(one.head_dim, 1)) * ggml.SCORE_BYTES / machine.bandwidth
    return (
        point, KINDS.index(_kind(one)), QUANTS.index(of), often * one.count, one.weight_bytes / machine.bandwidth,
        one.cache_bytes / machine.bandwidth, one.bytes / machine.bandwidth, one.flops / rate, attended / fp16, scores,
        max(rows, 1e-9), tokens, walked, ggml.launches(one), machine.flash_attention,
        one.format in ggml.SIXTEENS,
    )  # fmt: skip


def _kind(one: Operator) -> str:
    if one.kind in ("gemm", "experts", "state"):
        return one.kind
    if one.kind == "prefill_attention":
        return "prompt"
    if one.kind in CACHE:
        return "cache"
    return "other"


def seconds(flat: Flat, of: dict[str, Any]) -> Any:
    """Seconds of every point; `of` has an array for each constant of `GgmlKernels`, by quants where it differs."""
    kind = flat.kind
    compute = of["flops_share"] * np.where(flat.sixteens, of["sixteens_share"], 1)
    rates = ggml.Rates(of["bandwidth_share"], of["prompt_bandwidth_share"], compute)
    dense = ggml.multiplied(flat.weights_s, flat.compute_s, flat.rows, rates, of["fill_rows"])
    experts = woken_experts(
        (flat.weights_s / rates.read_one, flat.weights_s / rates.read_many),
        flat.compute_s / (rates.compute * of["experts_flops_share"]), flat.tokens, flat.rows,
        Tiles(of["widest_tile"], of["tile_rows"], of["idle_share"]),
    )  # fmt: skip
    share = np.where(flat.flash, of["attention_flops_share"], of["attention_flops_share_no_flash"])
    passes = np.where(flat.flash, 0, of["scores_passes"])
    prompt = flat.cache_s / of["cache_share"] + flat.attention_s / share + passes * flat.scores_s
    cache = flat.moved_s / np.where(flat.flash, of["cache_share"], of["cache_share_no_flash"])
    other = flat.moved_s / of["elementwise_share"]
    work = np.choose(kind, [dense, experts, prompt, cache, cache, other])
    latency = ggml.launched(
        flat.launches, np.where(kind == 1, flat.tokens, flat.rows), of["launch_s"], of["many_launch_s"]
    )
    latency = (
        latency
        + np.where(kind == 1, of["experts_s"], 0)
        + np.where(kind == 4, of["state_s"] + flat.walked_s / of["state_share"], 0)
    )
    return np.bincount(flat.point, flat.count * (work + latency), minlength=flat.points)


def constants(flat: Flat, rows: Sequence[GgmlKernels]) -> dict[str, Any]:
    """The constants of every operator, from the kernels of every point."""
    found: dict[str, Any] = {}
    for name in field_names(GgmlKernels):
        value = getattr(rows[0], name)
        if isinstance(value, dict):
            table = np.array([[getattr(row, name)[one] for one in QUANTS] for row in rows])
            found[name] = table[flat.point, flat.quants]
        elif isinstance(value, float | int) and not isinstance(value, bool):
            found[name] = np.array([getattr(row, name) for row in rows])[flat.point]
    return found
