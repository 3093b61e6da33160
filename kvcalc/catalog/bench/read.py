"""A file of results → measurements, by the keys it has."""

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from kvcalc.catalog.bench import llamabench, requests, serving
from kvcalc.catalog.bench.measurement import Measurement
from kvcalc.errors import KvcalcError, said_by

LARGEST = 200_000_000  # bytes
FORMS = "the JSON of `vllm bench serve`, `sglang.bench_serving` or `llama-bench -o json`, or a log of requests"


def read_results(path: Path) -> list[Measurement]:
    """Every measurement of a file: JSON, or JSON lines.

    Raises:
        KvcalcError: it cannot be read, or has none of the forms known here.
    """
    found = [one for table in _objects(path) for one in _measured(table, path.name)]
    if not found:
        raise KvcalcError(f"{path} has no result that kvcalc reads", hint=f"give {FORMS}")
    return found


def _measured(table: Mapping[str, Any], source: str) -> Iterable[Measurement]:
    try:
        one: Measurement | None = None
        if llamabench.is_llamabench(table):
            one = llamabench.timed(table, source)
        elif serving.is_serving(table):
            one = serving.served(table, source)
        elif requests.is_log(table):
            one = requests.served(table, source)
        if one is not None and not all(isfinite(value) for value in one if isinstance(value, float)):
            raise ValueError("a number that is none")
        return () if one is None else (one,)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise KvcalcError(f"{source}: a result is malformed: {error}", hint="is the file whole?") from error


def _objects(path: Path) -> list[Mapping[str, Any]]:
    try:
        if path.stat().st_size > LARGEST:
            raise KvcalcError(f"{path} is larger than {LARGEST:,} bytes", hint="is this the file you meant?")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise KvcalcError(f"cannot read {path}: {said_by(error)}", hint="check the path and its permissions") from error
    try:
        whole = json.loads(text)
        tables = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        tables = [_line(line, number, path) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return [table for table in tables if isinstance(table, dict)]


def _line(line: str, number: int, path: Path) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise KvcalcError(f"{path}, line {number}: not JSON", hint=f"give {FORMS}") from error
