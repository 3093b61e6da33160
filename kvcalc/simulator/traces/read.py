"""A file of requests, whatever its format: told by the names of its columns, read line by line, gzip too."""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from kvcalc.errors import KvcalcError, said_by
from kvcalc.simulator.traces import azure, bailian, bench, burstgpt, lengths, llmservingsim, log, mooncake
from kvcalc.simulator.traces.trace import Row, Trace, trace_of

# The first whose columns are all there; Bailian's are Mooncake's and more.
FORMATS: tuple[ModuleType, ...] = (azure, bailian, mooncake, llmservingsim, log, burstgpt, lengths)

LATEST_S = 1e12  # thirty thousand years: later is no time
ROW_HINT = "every request needs its time and its lengths"


def read_trace(path: str, time_scale: float = 1.0) -> Trace:
    """The workload of a file.

    Raises:
        KvcalcError: it cannot be read, is empty, has columns of no known format, or a row that makes no sense.
    """
    try:
        with _opened(Path(path)) as file:
            return _read(file, path, time_scale)
    except (OSError, UnicodeDecodeError, EOFError) as error:
        raise KvcalcError(
            f"--trace: cannot read {path}: {said_by(error)}", hint="check the path and its permissions"
        ) from error


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    opened = gzip.open(path, "rb") if packed else path.open("rb")  # noqa: SIM115 (the caller closes it)
    return io.TextIOWrapper(opened, encoding="utf-8-sig", newline="")


def _read(file: TextIO, path: str, time_scale: float) -> Trace:
    first = file.readline()
    file.seek(0)
    begin = first.lstrip()[:1]
    if begin in ("{", "["):
        if not _is_record(first):
            return _from_document(file.read(), path, time_scale)
        return _from_records(_lines(file, path), path, time_scale)
    if not first.strip():
        raise KvcalcError(f"--trace: {path} is empty", hint="is it the right file?")
    return _from_records(csv.DictReader(line for line in file if line.strip()), path, time_scale)


def _is_record(line: str) -> bool:
    """Whether a line is one request of many, not the beginning or the whole of a document."""
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and "requests" not in value and not all(key in value for key in bench.KEYS)


def _lines(file: TextIO, path: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise KvcalcError(f"--trace: {path}, line {number}: {error}", hint="is the file cut off?") from error
        if not isinstance(value, dict):
            raise KvcalcError(f"--trace: {path}, line {number}: no object", hint="one JSON object a line")
        yield value


def _from_document(text: str, path: str, time_scale: float) -> Trace:
    """One JSON value: a bench result, a log with its settings around it, or a list of requests."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise KvcalcError(f"--trace: {path} is not JSON: {error}", hint="is the file cut off?") from error
    if isinstance(value, dict) and all(key in value for key in bench.KEYS):
        return trace_of(_checked(bench.rows(value), path), "bench", 0, time_scale)
    records = value.get("requests") if isinstance(value, dict) else value
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise KvcalcError(f"--trace: {path} has no list of requests", hint=_hint())
    return _from_records(iter(records), path, time_scale)


def _from_records(records: Iterable[Mapping[str, Any]], path: str, time_scale: float) -> Trace:
    stream = iter(records)
    first = next(stream, None)
    if first is None:
        raise KvcalcError(f"--trace: {path} has no requests", hint="is it the right file?")
    form = next((one for one in FORMATS if all(name in first for name in one.COLUMNS)), None)
    if form is None:
        raise KvcalcError(f"--trace: {path} has columns of no known format: {', '.join(map(str, first))[:200]}",
                          hint=_hint())  # fmt: skip

    def every() -> Iterator[Mapping[str, Any]]:
        yield first
        yield from stream

    name = form.__name__.rsplit(".", 1)[-1]
    return trace_of(_checked(form.rows(every()), path), name, form.ID_TOKENS, time_scale)


def _checked(rows: Iterator[Row], path: str) -> Iterator[Row]:
    """The rows, an error in one told with its number."""
    number = 0
    while True:
        number += 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except KeyError as error:
            raise KvcalcError(f"--trace: {path}, request {number} has no {error}", hint="is the file whole?") from None
        except (ValueError, TypeError, OverflowError) as error:
            raise KvcalcError(f"--trace: {path}, request {number}: {error}", hint=ROW_HINT) from None
        times = (row.arrival_s, row.first_s or 0.0, row.last_s or 0.0)
        if not all(abs(time) < LATEST_S for time in times):  # NaN neither
            raise KvcalcError(f"--trace: {path}, request {number}: a time of {times} s", hint=ROW_HINT)
        yield row


def _hint() -> str:
    known = "; ".join(", ".join(one.COLUMNS) for one in FORMATS)
    return f"columns that are known: {known}"
