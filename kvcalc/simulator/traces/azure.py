"""Azure's LLM inference traces, 2023 and later: TIMESTAMP, ContextTokens, GeneratedTokens.

Source: https://github.com/Azure/AzurePublicDataset (AzureLLMInferenceTrace). Dates have seven digits of a second, which
is one more than Python's; prefixes are not told.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from kvcalc.simulator.traces.trace import Row

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
ID_TOKENS = 0


def rows(records: Iterable[Mapping[str, str]]) -> Iterator[Row]:
    """One row a record."""
    for record in records:
        yield Row(seconds(record["TIMESTAMP"]), int(record["ContextTokens"]), int(record["GeneratedTokens"]))


def seconds(date: str) -> float:
    """Seconds since 1970; a date without a zone is taken as UTC.

    >>> seconds("2023-11-16 18:17:03.9799600") - seconds("2023-11-16 18:17:03")
    0.9799599647521973
    """
    whole, _, digits = date.strip().partition(".")
    fraction = digits.split("+")[0].rstrip("Z")
    when = datetime.fromisoformat(whole.replace("T", " ").rstrip("Z").split("+")[0]).replace(tzinfo=UTC)
    return round(when.timestamp() + (float(f"0.{fraction}") if fraction else 0.0), 7)
