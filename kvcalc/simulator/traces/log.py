"""A log of requests in base units: arrival_s, input_tokens, output_tokens, and what else it knows of each.

`first_token_s` and `last_token_s` are what was measured; `hash_ids` name full blocks of 16 tokens and all before
them; the smaller `priority`, the sooner a request is served where that is heeded.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvcalc.simulator.traces.trace import Row

COLUMNS = ("arrival_s", "input_tokens", "output_tokens")
ID_TOKENS = 16


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """One row a record."""
    for record in records:
        ids = record.get("hash_ids")
        yield Row(
            float(record["arrival_s"]),
            int(record["input_tokens"]),
            int(record["output_tokens"]),
            tuple(ids) if ids else None,
            _time(record.get("first_token_s")),
            _time(record.get("last_token_s")),
            int(record.get("priority") or 0),
        )


def _time(value: Any) -> float | None:
    return None if value in (None, "") else float(value)
