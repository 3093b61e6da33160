"""BurstGPT: Timestamp in seconds, Request tokens, Response tokens; a response without tokens is a failure.

Source: https://github.com/HPMLL/BurstGPT. Failures have no tokens to generate and are counted as refused.
"""

from collections.abc import Iterable, Iterator, Mapping

from kvcalc.simulator.traces.trace import Row

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
ID_TOKENS = 0


def rows(records: Iterable[Mapping[str, str]]) -> Iterator[Row]:
    """One row a record."""
    for record in records:
        yield Row(float(record["Timestamp"]), int(record["Request tokens"]), int(record["Response tokens"]))
