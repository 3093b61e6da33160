"""What `kvcalc check` shows: failures first, with what was wanted, what is there, and what would mend it."""

from typing import Any

from kvcalc.render.command import started_by
from kvcalc.render.page import Block, Page, Table, Text, assumed
from kvcalc.render.pages.changes import SIGN, changes, moved
from kvcalc.render.printable import printable
from kvcalc.results.changes import Change
from kvcalc.results.check import CheckedDeployment, CheckReport, LimitResult
from kvcalc.results.data import data_of
from kvcalc.units import format_seconds, format_usd


def page(report: CheckReport) -> Page:
    """Every deployment in a table of its limits, the broken ones first."""
    result = report.result
    broken = sum(not one.passed for one in result.deployments)
    blocks: list[Block] = []
    for one in result.deployments:
        if one.limits:
            blocks.append(_limits(one))
        if one.reason:
            blocks.append(Text(title="" if one.limits else _header(one), lines=(one.reason,)))
        if one.advice:
            blocks.append(Text(lines=tuple(f"{advice.change}: {advice.effect}" for advice in one.advice)))
        if one.command is not None and one.fits:
            blocks.append(started_by(one.command)._replace(title=""))
    blocks += changes(result.baseline, "deployment", _changed)
    total = len(result.deployments)
    verdict = f"all {total} keep their limits" if result.passed else f"{broken} of {total} broken"
    return Page(
        title=f"{report.inputs['file']}",
        verdict=verdict,
        good=result.passed,
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _header(one: CheckedDeployment) -> str:
    return ("✓ " if one.passed else "✗ ") + one.header


def _limits(one: CheckedDeployment) -> Table:
    return Table(
        title=_header(one),
        columns=("", "limit", "want", "have", "misses by", "judged on"),
        left=frozenset({0, 1, 5}),
        rows=tuple(_limit(limit) for limit in one.limits),
    )


def _limit(limit: LimitResult) -> tuple[str, ...]:
    return (
        "ok" if limit.passed else "FAIL",
        limit.name,
        shown(limit.name, limit.want),
        _have(limit),
        "" if limit.miss is None else f"{limit.miss:.1%}",
        limit.judged_on,
    )


def _have(limit: LimitResult) -> str:
    """What nothing is known of breaks a limit; what is unlimited keeps it."""
    return "nothing" if limit.have is None and not limit.passed else shown(limit.name, limit.have)


def shown(name: str, value: float | bool | None) -> str:
    """A limit's value in its own unit."""
    if value is None:
        return "no limit"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.startswith("max-") and name.rpartition("-")[2] in ("tpot", "ttft", "e2e"):
        return format_seconds(value)
    if name.startswith("max-usd"):
        return format_usd(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def rows(report: CheckReport) -> list[dict[str, Any]]:
    """For CSV: one line a limit."""
    return [
        {"deployment": one.name, "model": one.model, "gpu": one.gpu, **data_of(limit)}
        for one in report.result.deployments
        for limit in one.limits
    ]


def annotations(report: CheckReport) -> str:
    """Workflow commands: an error for each broken limit on its own line, and for what cannot be judged; the verdict.

    With a baseline, a warning or notice for each figure that moved; a doubt about a model is a warning.
    """
    file = _property(report.inputs["file"])
    lines = []
    for one in report.result.deployments:
        if not one.limits and not one.passed:
            lines.append(_command("error", file, one.line, f"{one.header}: {one.reason}"))
        for limit in one.limits:
            if limit.passed:
                continue
            why = f" ({one.reason})" if one.reason and limit.name == "fits" else ""
            advice = "" if limit.mend is None else f" {limit.mend.change}: {limit.mend.effect}"
            text = f"{one.header}: {limit.name} wants {shown(limit.name, limit.want)}, has {_have(limit)}{why}.{advice}"
            lines.append(_command("error", file, limit.line, text))
        lines += [_command("warning", file, one.line, f"{one.header}: {said}") for said in one.doubts]
    for change in report.result.baseline.changes if report.result.baseline else ():
        kind = "warning" if change.worse else "notice"
        lines.append(_command(kind, file, change.line or 1, _sentence(change)))
    total = len(report.result.deployments)
    if report.result.passed:
        lines.append(f"::notice title=kvcalc check::all {total} deployments keep their limits")
    return "\n".join(lines) + "\n"


def _command(kind: str, file: str, line: int, text: str) -> str:
    return f"::{kind} file={file},line={line},title=kvcalc check::{_data(text)}"


def _sentence(one: Change) -> str:
    """A change in words."""
    if one.figure is None:
        return f"{SIGN[one.mark]} {one.of}: {'new' if one.mark == '+' else 'gone'} since the baseline"
    before, after = _changed(one.figure, one.before), _changed(one.figure, one.after)
    what = after if one.mark == "+" else before if one.mark == "-" else f"{before} → {after}"
    return f"{SIGN[one.mark]} {one.of}: {one.figure} {what} ({moved(one)})"


def _changed(name: str, value: object) -> str:
    return shown(name, value) if isinstance(value, bool | int | float) else "nothing"


def _data(text: str) -> str:
    return printable(text.replace("\r\n", "\n")).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
