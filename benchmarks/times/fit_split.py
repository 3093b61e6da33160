"""Fit llama.cpp's layer split: what a hop to the next device takes, and how far ubatches overlap.

Each pair is one model's run on one device and on several of the same, of one test; nothing else is modelled.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from times.local_points import LocalPoint

Pair = tuple[LocalPoint, LocalPoint]  # on one device, on several
SAME = ("model", "quant", "test", "n", "depth", "batch", "ubatch", "date", "build")


def pairs(points: Sequence[LocalPoint]) -> Iterator[Pair]:
    """Runs that differ in the number of devices alone."""
    alike: dict[tuple[Any, ...], dict[int, LocalPoint]] = defaultdict(dict)
    for point in points:
        alike[point.device, *(point.row.get(key) for key in SAME)][point.stages] = point
    for found in alike.values():
        yield from ((found[1], more) for stages, more in found.items() if 1 in found and stages > 1)


def hop_s(pair: Pair) -> float:
    """Seconds that a decode step takes longer, for each further device."""
    one, more = pair
    return (more.measured_s - one.measured_s) / (more.stages - 1)


def busy(pair: Pair) -> float | None:
    """`pipelined` for the share that is work; None: a prompt of one ubatch has none to follow it.

    m · t_n / t_1 = 1 + (m - 1) / (busy · n)
    """
    one, more = pair
    ubatches = sum(often for often, _ in more.steps)
    taken = ubatches * more.measured_s / one.measured_s
    return (ubatches - 1) / (more.stages * (taken - 1)) if ubatches > 1 else None


def fit_split(points: Sequence[LocalPoint]) -> dict[str, Any]:
    """The table of the data file: medians, the overlap at the smallest and at the largest stages."""
    found = list(pairs(points))
    hops = [hop_s(pair) for pair in found if pair[0].decodes]
    shares = [
        (pair[1].stage_parameters, share) for pair in found if not pair[0].decodes and (share := busy(pair)) is not None
    ]
    sizes = sorted({size for size, _ in shares})
    ends = (sizes[0], sizes[-1])
    return {
        "hop_s": median(hops),
        "parameters": [float(f"{end:.3g}") for end in ends],
        "busy": [float(f"{median(share for size, share in shares if size == end):.3g}") for end in ends],
        "points": len(hops) + len(shares),
        "evidence": f"llama-bench on one and on several devices of {len({pair[0].device for pair in found})} kinds",
    }
