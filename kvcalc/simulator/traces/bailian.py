"""Qwen-Bailian's traces: as Mooncake's, with seconds, 16 tokens an id, and the chat that a request belongs to.

Source: https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon; read by its published columns, no file was seen.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvcalc.simulator.traces.trace import Row

COLUMNS = ("chat_id", "timestamp", "input_length", "output_length", "hash_ids")
ID_TOKENS = 16


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """One row a record."""
    for record in records:
        yield Row(
            float(record["timestamp"]),
            int(record["input_length"]),
            int(record["output_length"]),
            tuple(map(int, record["hash_ids"])),
        )
