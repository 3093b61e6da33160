"""What `kvcalc check` shows: failures first, with what was wanted, what is there, and what would mend it."""

from typing import Any

from kvcalc.render.command import started_by
from kvcalc.render.page import Block, Page, Table, Text, assumed
from kvcalc.render.printable import printable
from kvcalc.results.check import CheckedDeployment, CheckReport, LimitResult
from kvcalc.results.data import data_of
from kvcalc.units import format_seconds, format_usd


def page(report: CheckReport) -> Page:
    """Every deployment in a table of its limits, the broken ones first."""
    result = report.result
    broken = sum(not one.passed for one in result.deployments)
    blocks: list[Block] = []
    for one in result.deployments:
        blocks.append(_limits(one))
        if one.reason:
            blocks.append(Text(lines=(one.reason,)))
        if one.advice:
            blocks.append(Text(lines=tuple(f"{advice.change}: {advice.effect}" for advice in one.advice)))
        if one.command is not None and one.fits:
            blocks.append(started_by(one.command)._replace(title=""))
    total = len(result.deployments)
    verdict = f"all {total} keep their limits" if result.passed else f"{broken} of {total} broken"
    return Page(
        title=f"{report.inputs['file']}",
        verdict=verdict,
        good=result.passed,
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _limits(one: CheckedDeployment) -> Table:
    return Table(
        title=("✓ " if one.passed else "✗ ") + one.header,
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
    if name in ("max-tpot", "max-ttft"):
        return format_seconds(value)
    if name == "max-usd-per-mtok":
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
    """Workflow commands: one error for each broken limit, on the line of its deployment; then the verdict."""
    lines = []
    for one in report.result.deployments:
        for limit in one.limits:
            if limit.passed:
                continue
            why = f" ({one.reason})" if one.reason and limit.name == "fits" else ""
            advice = f" {one.advice[0].change}: {one.advice[0].effect}" if one.advice else ""
            text = f"{one.header}: {limit.name} wants {shown(limit.name, limit.want)}, has {_have(limit)}{why}.{advice}"
            lines.append(
                f"::error file={_property(report.inputs['file'])},line={one.line},title=kvcalc check::{_data(text)}"
            )
    total = len(report.result.deployments)
    if report.result.passed:
        lines.append(f"::notice title=kvcalc check::all {total} deployments keep their limits")
    return "\n".join(lines) + "\n"


def _data(text: str) -> str:
    return printable(text.replace("\r\n", "\n")).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
