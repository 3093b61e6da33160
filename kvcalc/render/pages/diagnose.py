"""What `kvcalc diagnose` shows."""

from typing import Any

from kvcalc.render.command import started_by
from kvcalc.render.page import Block, Page, Table, Text, assumed
from kvcalc.results.base import engine_name
from kvcalc.results.data import data_of
from kvcalc.results.diagnose import Compared, DiagnoseReport, DiagnoseResult, MemoryLine
from kvcalc.units import GIB, format_bytes, format_count, format_gib

EQUAL = 0.00005  # what two decimals of a percentage cannot show


def page(report: DiagnoseReport) -> Page:
    """Why it did not start, where the memory went, what disagrees, what would change it."""
    result = report.result
    blocks: list[Block] = []
    if result.refusals:
        blocks += [
            Text(title="Why it did not start", lines=(f"line {one.number}: {one.line}", *one.why))
            for one in result.refusals
        ]
    if result.memory:
        blocks.append(_memory(result))
    shares = {line.name for line in result.memory}
    capacity = tuple(one for one in result.agreement if one.name not in shares)
    alone = _said_alone(result, {one.name for one in capacity})
    if capacity or alone:
        blocks.append(_capacity(capacity, alone))
    disagreeing = tuple(_disagreement(one) for one in result.agreement if not one.agrees)
    if disagreeing:
        blocks.append(Text(title="What disagrees", lines=disagreeing))
    if result.advice:
        blocks.append(
            Text(title="What would change it", lines=tuple(f"{one.change}: {one.effect}" for one in result.advice))
        )
    if result.mended_command is not None:
        blocks.append(started_by(result.mended_command)._replace(title="The command that would start"))
    elif result.command is not None:
        blocks.append(started_by(result.command))
    if result.missing:
        blocks.append(Text(title="What the log does not say", lines=result.missing))
    name = engine_name(result.engine, result.version)
    where = " on ".join(part for part in (result.model, result.gpu) if part)
    return Page(
        title=f"{name}: {where}" if where else name,
        verdict=_verdict(result),
        good=result.started and not disagreeing if result.agreement or result.refusals else None,
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _verdict(result: DiagnoseResult) -> str:
    if not result.started:
        return "did not start"
    if not result.agreement:
        return "read"
    wrong = sum(not one.agrees for one in result.agreement)
    return "agrees with the prediction" if not wrong else f"{wrong} of {len(result.agreement)} figures disagree"


def _memory(result: DiagnoseResult) -> Table:
    return Table(
        title="Memory of one GPU",
        columns=("", "log", "predicted", "range"),
        left=frozenset({0}),
        rows=tuple(_row(line) for line in result.memory),
    )


def _row(line: MemoryLine) -> tuple[str, ...]:
    spread = ""
    if line.low_bytes is not None and line.high_bytes is not None:
        spread = f"{line.low_bytes / GIB:,.2f} to {line.high_bytes / GIB:,.2f}"
    name = f"{line.name} ({line.note})" if line.note and len(line.note) < 20 else line.name
    return name, _size(line.log_bytes), _size(line.predicted_bytes), spread


def _size(value: int | None) -> str:
    return "–" if value is None else format_gib(value)


def _said_alone(result: DiagnoseResult, compared: set[str]) -> tuple[tuple[str, ...], ...]:
    """What the log says of its cache where there is no prediction to put beside it."""
    said = ((name, result.log.get(name)) for name in ("blocks", "tokens", "concurrency") if name not in compared)
    return tuple((name, f"{value:,}", "–", "") for name, value in said if isinstance(value, int | float))


def _capacity(rows: tuple[Compared, ...], alone: tuple[tuple[str, ...], ...]) -> Table:
    return Table(
        title="What the log's pool holds",
        columns=("", "log", "predicted", "error"),
        rows=(*((one.name, _shown(one, one.log), _shown(one, one.predicted), _error(one)) for one in rows), *alone),
    )


def _shown(one: Compared, value: float) -> str:
    if one.unit == "bytes":
        return format_bytes(value)
    return format_count(value) if float(value).is_integer() else f"{value:,.2f}"


def _error(one: Compared) -> str:
    if one.error is None:
        return ""
    return "equal" if abs(one.error) < EQUAL else f"{one.error:+.2%}"


def _disagreement(one: Compared) -> str:
    log, predicted = _shown(one, one.log), _shown(one, one.predicted)
    return f"{one.name}: the log says {log}, predicted was {predicted} ({_error(one)})"


def rows(report: DiagnoseReport) -> list[dict[str, Any]]:
    """For CSV: the figures that were compared."""
    return [data_of(one) for one in report.result.agreement]
