"""Mooncake's traces: timestamp in milliseconds, input_length, output_length, hash_ids of 512 tokens each.

Source: https://github.com/kvcache-ai/Mooncake (FAST25-release/traces). An id names its 512 tokens and all before them;
the last one of a prompt names what is left. Qwen-Bailian's traces have the same columns, seconds, and 16 tokens an id.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvcalc.simulator.traces.trace import Row

COLUMNS = ("timestamp", "input_length", "output_length", "hash_ids")
ID_TOKENS = 512
MILLISECONDS = 1000.0


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """One row a record."""
    for record in records:
        yield Row(
            float(record["timestamp"]) / MILLISECONDS,
            int(record["input_length"]),
            int(record["output_length"]),
            tuple(map(int, record["hash_ids"])),
        )
