"""What has changed since a `check` that was kept: deployments and limits that came or went, figures that moved."""

from collections.abc import Iterator
from typing import Any

from kvcalc.answers.baseline import came_and_went, differs, kept
from kvcalc.results.changes import Baseline, Change
from kvcalc.results.check import CheckedDeployment, CheckReport, CheckResult, LimitResult
from kvcalc.specs.base import replace


def with_baseline(report: CheckReport, path: str) -> CheckReport:
    """The report, with what is otherwise than in a file that `check --json` wrote.

    Raises:
        KvcalcError: the file is none.
    """
    old = {str(one.get("name")): one for one in kept(path, "check").get("deployments", ())}
    return replace(report, result=_compared(report.result, old, path))


def _compared(result: CheckResult, old: dict[str, Any], path: str) -> CheckResult:
    new = {one.name: one for one in result.deployments}
    changes = [change for one in result.deployments if one.name in old for change in _of(one, old[one.name])]
    lines = {one.name: one.line for one in result.deployments}
    whole = [replace(change, line=lines.get(change.of)) for change in came_and_went(old, new)]
    return replace(result, baseline=Baseline(file=path, changes=(*changes, *whole)))


def _of(one: CheckedDeployment, old: dict[str, Any]) -> Iterator[Change]:
    before = {str(limit.get("name")): limit for limit in old.get("limits", ())}
    for limit in one.limits:
        if limit.name not in before:
            yield _limit("+", one, limit, {})
        elif _moved(limit, before[limit.name]):
            yield _limit("~", one, limit, before[limit.name])
    names = {limit.name for limit in one.limits}
    for name, limit in before.items():
        if name not in names:
            yield Change(mark="-", of=one.name, figure=name, before=limit.get("have"),
                         passed_before=limit.get("passed"), line=one.line)  # fmt: skip
    if one.fits is None and old.get("limits"):
        yield Change(mark="~", of=one.name, figure="judged", before=True, after=False, line=one.line)


def _moved(limit: LimitResult, before: dict[str, Any]) -> bool:
    return differs(before.get("have"), limit.have) or before.get("passed") is not limit.passed


def _limit(mark: Any, one: CheckedDeployment, limit: LimitResult, before: dict[str, Any]) -> Change:
    return Change(
        mark=mark,
        of=one.name,
        figure=limit.name,
        before=before.get("have"),
        after=limit.have,
        passed_before=before.get("passed"),
        passed_after=limit.passed,
        line=limit.line,
    )
