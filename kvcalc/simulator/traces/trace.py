"""What every reader gives: rows in the file's order, made into a workload with what was wrong with them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kvcalc.simulator.requests import Chain, Requests


class Row(NamedTuple):
    """One request. Seconds from any moment; tokens as the file says them, zero and negative ones too."""

    arrival_s: float
    prompt: int
    output: int
    chain: Chain | None = None
    first_s: float | None = None  # measured: first token
    last_s: float | None = None  # and last one
    priority: int = 0


class Measured(NamedTuple):
    """What a log says of its requests, in the order of the workload."""

    ttft_s: tuple[float, ...]
    tpot_s: tuple[float, ...]  # of requests with more than one token out
    e2e_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A workload from a file."""

    requests: Requests
    unordered: int  # rows that stood before an earlier one
    format: str
    measured: Measured | None = None


def trace_of(rows: Iterable[Row], form: str, id_tokens: int = 0, time_scale: float = 1.0) -> Trace:
    """Rows by time, from the first arrival on; `time_scale` multiplies the times between arrivals."""
    found = list(rows)
    unordered = sum(1 for one, other in pairwise(found) if other.arrival_s < one.arrival_s)
    found.sort(key=lambda row: row.arrival_s)
    first = found[0].arrival_s if found else 0.0
    chains = [row.chain for row in found] if any(row.chain for row in found) else None
    requests = Requests(
        arrival_s=[(row.arrival_s - first) * time_scale for row in found],
        prompt=[row.prompt for row in found],
        output=[row.output for row in found],
        chains=chains,
        id_tokens=id_tokens,
        priority=[row.priority for row in found] if any(row.priority for row in found) else None,
    )
    return Trace(requests, unordered, form, _measured(found))


def _measured(rows: list[Row]) -> Measured | None:
    if not rows or any(row.first_s is None or row.last_s is None for row in rows):
        return None
    spans = [(row, (row.first_s or 0) - row.arrival_s, (row.last_s or 0) - row.arrival_s) for row in rows]
    return Measured(
        ttft_s=tuple(ttft for _, ttft, _ in spans),
        tpot_s=tuple((e2e - ttft) / (row.output - 1) for row, ttft, e2e in spans if row.output > 1),
        e2e_s=tuple(e2e for _, _, e2e in spans),
    )
