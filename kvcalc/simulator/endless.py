"""What an endless cache would hit: every token that any earlier request had at the same place."""

from kvcalc.simulator.requests import Requests


def endless_hit_rate(requests: Requests) -> float | None:
    """Share of all prompt tokens that an earlier request had before; None: prompts are not told apart.

    A partial last id counts like a full one, as published figures of traces have it. Ids beyond the prompt are of the
    answer, which the next turn of a session finds too.

    >>> endless_hit_rate(Requests([0, 1], [40, 30], [1, 1], [(7, 8, 9), (7, 8)], 16))
    0.42857142857142855
    >>> endless_hit_rate(Requests([0, 1], [10, 30], [5, 5], [(1, 2), (1, 2, 3, 4)], 0, {1: 10, 2: 5, 3: 15, 4: 5}))
    0.375
    """
    if requests.chains is None:
        return None
    seen: set[tuple[int, int]] = set()
    hit = 0
    for chain, prompt in zip(requests.chains, requests.prompt, strict=True):
        before, reached, found = -1, 0, True
        for one in chain or ():
            tokens = max(0, min(requests.id_tokens or requests.sizes[one], prompt - reached))
            key = (before, one)
            found = found and key in seen
            hit += tokens if found else 0
            seen.add(key)
            before, reached = one, reached + tokens
    return hit / sum(requests.prompt)
