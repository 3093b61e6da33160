"""Lengths without times: output_tokens, and input_tokens where prompts are longer than a token; all come at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvcalc.simulator.traces.trace import Row

COLUMNS = ("output_tokens",)
ID_TOKENS = 0


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """One row a record."""
    for record in records:
        yield Row(0.0, int(record.get("input_tokens", 1)), int(record["output_tokens"]))
