"""The prompt's cache as a thing that moves: prefix hits, transfers to another GPU, swap against recomputation."""

import tomllib
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain
from kvcalc.answers.performance import Performance
from kvcalc.counting.params import total_parameters
from kvcalc.counting.work import Step
from kvcalc.formulas.collectives import transfer_time
from kvcalc.formulas.paging import blocks_for_tokens
from kvcalc.formulas.prefill import recompute_time
from kvcalc.results.base import Figure
from kvcalc.results.prefill import Preemption, PrefixHit, SwapRow, Transfer
from kvcalc.specs.base import Assumption
from kvcalc.specs.gpu import Link
from kvcalc.specs.model import Attention, Recurrent
from kvcalc.timing.operators.collective import LINK_SHARE, LINK_SHARE_SOURCE
from kvcalc.timing.passes import Pass
from kvcalc.timing.peaks import HOST_LINKS

USUAL_BLOCKS = (1, 8, 16, 32, 64, 128, 256)


@cache
def copy_constants() -> dict[str, Any]:
    """Everything copies.toml says."""
    return tomllib.loads(Path(__file__).with_name("copies.toml").read_text(encoding="utf-8"))


def link_share(deployed: Deployed) -> float:
    """Of a link's bandwidth, what a bulk copy reaches; the bound takes all of it."""
    return 1.0 if deployed.replica.ideal else LINK_SHARE


def assumptions(deployed: Deployed) -> tuple[Assumption, ...]:
    if deployed.replica.ideal:
        return ()
    copies = copy_constants()
    return (
        Assumption(name="link share", value=LINK_SHARE, why=LINK_SHARE_SOURCE),
        Assumption(name="seconds per copied block", value=copies["host"]["copy_s"], why=copies["host"]["source"]),
    )


def sent_bytes(deployed: Deployed, tokens: int) -> float:
    """Cache of one sequence that one GPU of the replica holds and would send."""
    stored = deployed.replica.cache.stored(tokens)
    return stored / (deployed.deployment.pipeline_parallel_size * deployed.deployment.decode_context_parallel_size)


def transfers(deployed: Deployed, tokens: int, prefill_s: float) -> tuple[tuple[Transfer, ...], tuple[Figure, ...]]:
    """The hand-over of a prompt's cache over every link of the GPU, the fastest first."""
    moved, layers = sent_bytes(deployed, tokens), deployed.model.layers
    found, figures = [], []
    for link in sorted(deployed.gpu.links, key=lambda one: -one.bandwidth_bytes_per_s):
        reached = link.bandwidth_bytes_per_s * link_share(deployed)
        figure = explain(transfer_time, name=f"transfer over {link.name}", message_bytes=moved,
                         bandwidth_bytes_per_s=reached)  # fmt: skip
        time = figure.value or 0.0
        found.append(Transfer(link=link.name, bytes=moved, time_s=time, exposed_s=exposed(time, prefill_s, layers)))
        figures.append(figure)
    return tuple(found), tuple(figures)


def exposed(transfer_s: float, prefill_s: float, layers: int) -> float:
    """What is left to send when the last layer is computed, if every layer is sent while the next one is computed.

    The link keeps up: one layer's part. It does not: all of it but what fitted beside the other layers.

    >>> exposed(1.0, prefill_s=10.0, layers=10), exposed(10.0, prefill_s=1.0, layers=10)
    (0.1, 9.1)
    """
    return max(transfer_s / layers, transfer_s - prefill_s * (layers - 1) / layers)


def prefix_hit(deployed: Deployed, prompt: int, context: int) -> PrefixHit:
    """A hit shortens the prefill by the tokens that are there, and sequences that share them share their blocks."""
    tokens = deployed.usable_hit(prompt)
    speed = Performance(deployed)
    with_hit, without = speed.alone(prompt).time_s, speed.alone(prompt, hit=0).time_s
    return PrefixHit(
        asked_tokens=deployed.question.workload.prefix_hit or 0,
        tokens=tokens,
        time_s=float(with_hit),
        time_without_s=float(without),
        saved_share=1 - float(with_hit) / float(without),
        max_batch=None if (held := sharing(deployed, min(tokens, context), context)) is None else held[0] // held[1],
        max_batch_without=deployed.max_batch(context),
    )


def sharing(deployed: Deployed, shared: int, context: int) -> tuple[int, int] | None:
    """Blocks for sequences of the context that have the same first `shared` tokens, and what each takes of them.

    Blocks of layers without a window are held once; windows and states stay each sequence's own.
    """
    if deployed.capacity is None:
        return None
    fitting = []
    for pool in deployed.capacity.pools:
        once = sum(g.blocks(shared) - g.weight * g.fixed_blocks for g in pool.groups if _shareable(g.window, g.kind))
        if deployed.replica.ideal:
            once = int(shared * sum(g.token_bytes for g in pool.groups if g.window is None))
        each = pool.blocks(deployed.slots(context)) - once
        room = pool.num_blocks - pool.unusable_blocks - once
        if each > 0:
            fitting.append((max(0, room), each))
    return min(fitting, key=lambda one: one[0] // one[1], default=None)


def _shareable(window: int | None, kind: str) -> bool:
    return window is None and kind != "state"


def host_link(deployed: Deployed, bandwidth: float | None) -> Link | None:
    """The way to the host's memory, at the bandwidth that was given, else the data sheet's; None: not known."""
    found = next((link for name in HOST_LINKS if (link := deployed.gpu.link(name))), None)
    if bandwidth is None:
        return found
    return Link(name=found.name if found else "host", bandwidth_bytes_per_s=bandwidth)


def preemption(
    deployed: Deployed, tokens: int, efficiency: float, bandwidth: float | None = None
) -> tuple[Preemption, tuple[Figure, ...]]:
    """Swap, out and in again, against recomputation of a sequence of `tokens` tokens.

    With `--engine ideal` both are the lessons': bytes over the link, and the weights' FLOPs alone.
    """
    moved, link = sent_bytes(deployed, tokens), host_link(deployed, bandwidth)
    ideal = deployed.replica.ideal
    figures: list[Figure] = []
    if ideal:
        parameters = total_parameters(deployed.model) / deployed.deployment.tensor_parallel_size
        figure = explain(recompute_time, name="recomputation", parameters=parameters, tokens=tokens,
                         peak_flops=deployed.replica.peak_flops, compute_efficiency=efficiency)  # fmt: skip
        figures.append(figure)
        recompute_s = figure.value or 0.0
    else:
        recompute_s = float(Pass(deployed.replica, Step(prompts=1, tokens=tokens), efficiency).time_s)
    block = deployed.capacity.block_size if deployed.capacity else None
    one_way_s: float | None = None
    rows: tuple[SwapRow, ...] = ()
    if link is not None:
        reached = link.bandwidth_bytes_per_s * (1.0 if bandwidth else link_share(deployed))
        pieces = _copies(deployed, tokens, block) if not ideal else 0
        latency = float(copy_constants()["host"]["copy_s"]) if pieces else 0
        figure = explain(transfer_time, name="swap, one way", message_bytes=moved, bandwidth_bytes_per_s=reached,
                         latency_s=latency, messages=pieces)  # fmt: skip
        figures.append(figure)
        one_way_s = figure.value or 0.0
        rows = () if ideal else tuple(_row(deployed, tokens, size, moved, reached) for size in USUAL_BLOCKS)
    found = Preemption(
        tokens=tokens,
        bytes=moved,
        link=link.name if link else None,
        swap_one_way_s=one_way_s,
        swap_s=None if one_way_s is None else 2 * one_way_s,
        recompute_s=recompute_s,
        cheaper="recompute" if one_way_s is None or recompute_s <= 2 * one_way_s else "swap",
        block_size=block,
        by_block_size=rows,
    )
    return found, tuple(figures)


def _row(deployed: Deployed, tokens: int, block: int, moved: float, bandwidth: float) -> SwapRow:
    copies = _copies(deployed, tokens, block)
    latency = float(copy_constants()["host"]["copy_s"])
    return SwapRow(block_size=block, copies=copies, swap_s=2 * transfer_time(moved, bandwidth, latency, copies))


def _copies(deployed: Deployed, tokens: int, block: int | None) -> int:
    """Pieces that are contiguous: a block of one layer; keys and values lie apart, a latent or a state is one."""
    pieces = 0
    for group in deployed.model.groups:
        for mixer in group.mixers:
            window = getattr(mixer, "window", None)
            held = tokens if window is None else min(tokens, window)
            growing = block is not None and not isinstance(mixer, Recurrent)
            blocks = blocks_for_tokens(held, block or 1) if growing else 1
            pieces += group.count * blocks * (2 if isinstance(mixer, Attention) else 1)
    return ceil(pieces / deployed.deployment.pipeline_parallel_size)
