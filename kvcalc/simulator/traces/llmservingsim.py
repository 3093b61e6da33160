"""LLMServingSim's workloads: input_toks, output_toks, arrival_time_ns and the ids of the prompt's tokens.

Source: https://github.com/casys-kaist/LLMServingSim. Prompts are compared by blocks of 16 token ids.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kvcalc.simulator.requests import Chain
from kvcalc.simulator.traces.trace import Row

COLUMNS = ("input_toks", "output_toks", "arrival_time_ns")
ID_TOKENS = 16
NANOSECONDS = 1e9


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """One row a record."""
    names: dict[tuple[int, ...], int] = {}
    for record in records:
        yield Row(
            float(record["arrival_time_ns"]) / NANOSECONDS,
            int(record["input_toks"]),
            int(record["output_toks"]),
            _chain(record.get("input_tok_ids") or (), names),
        )


def _chain(tokens: Any, names: dict[tuple[int, ...], int]) -> Chain | None:
    """A number for each full block, the same for equal tokens after the same block."""
    if isinstance(tokens, str):
        tokens = [int(one) for one in tokens.strip("[] ").split(",") if one.strip()]
    chain: list[int] = []
    for begin in range(0, len(tokens) - ID_TOKENS + 1, ID_TOKENS):
        block = (chain[-1] if chain else -1, *tokens[begin : begin + ID_TOKENS])
        chain.append(names.setdefault(block, len(names)))
    return tuple(chain) or None
