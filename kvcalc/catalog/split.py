"""Unequal cards of one host as one device, as llama.cpp's layer split uses them: `rtx3090+rtx3060`.

Layers go to the cards in proportion to their memory, and a token passes through all of them. So the memories add up,
and a rate is the mean of the cards' rates by the time that each share of the layers takes: 1 / Σ (share / rate).
"""

from collections.abc import Callable, Sequence

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.specs.gpu import GpuSpec

JOINT = "+"


def is_split(text: str) -> bool:
    """Whether a name is of several cards.

    >>> is_split("rtx3090+rtx3060"), is_split("rtx3090")
    (True, False)
    """
    return JOINT in text


def split_of(text: str, load: Callable[[str], GpuSpec]) -> GpuSpec:
    """The cards of a name with `+`, as one.

    Raises:
        KvcalcError: an unknown card, or cards of different vendors, which no one backend but Vulkan drives.
    """
    cards = [load(part) for part in text.split(JOINT)]
    vendors = {card.vendor for card in cards}
    if len(vendors) > 1:
        raise KvcalcError(f"{text[:60]!r}: {' and '.join(sorted(vendors))} cards in one host", hint="name one vendor's")
    total = sum(card.usable_memory_bytes for card in cards)
    shares = [card.usable_memory_bytes / total for card in cards]
    first = cards[0]
    peaks = set.intersection(*(set(card.peak_flops) for card in cards))
    said = ", ".join(f"{share:.0%} on {card.name}" for share, card in zip(shares, cards, strict=True))
    return GpuSpec(
        name=JOINT.join(card.name for card in cards),
        title=" + ".join(card.title for card in cards),
        vendor=first.vendor,
        architecture=first.architecture,
        compute_capability=first.compute_capability,
        memory_bytes=sum(card.memory_bytes for card in cards),
        usable_memory_bytes=total,
        memory_bandwidth_bytes_per_s=mean_rate([card.memory_bandwidth_bytes_per_s for card in cards], shares),
        peak_flops={name: mean_rate([card.peak_flops[name] for card in cards], shares) for name in sorted(peaks)},
        links=first.links,
        gpus_per_node=max(len(cards), first.gpus_per_node),
        unified_memory=first.unified_memory,
        split_over=len(cards),
        sources=first.sources,
        notes=(f"Layers by memory: {said}.",),
        assumptions=(
            *(one for card in cards for one in card.assumptions),
            Assumption(name="layer split", value=said, why="by the cards' memory; rates are means"),
        ),
    )


def mean_rate(rates: Sequence[float], shares: Sequence[float]) -> float:
    """The rate of work that passes the cards one after the other: 1 / Σ (share / rate).

    >>> mean_rate([100.0, 50.0], [0.5, 0.5])
    66.66666666666667
    """
    return 1 / sum(share / rate for share, rate in zip(shares, rates, strict=True))
