"""Several simulations of one question: every combination of the flags that were repeated, on all cores."""

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from kvcalc.answers.common_assumptions import gathered
from kvcalc.answers.simulate.ask import Asked, simulate_from
from kvcalc.answers.simulate.parallel import mapped
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.results.base import Report
from kvcalc.results.simulate import SweepPoint, SweepReport, SweepResult
from kvcalc.specs.base import field_names, replace
from kvcalc.specs.checked import flag_of


def sweep(asked: Asked, lists: Mapping[str, Sequence[str]], ray: str | None = None) -> SweepReport:
    """One simulation for each combination of the values in `lists`, by field."""
    names = list(lists)
    combinations = [dict(zip(names, values, strict=True)) for values in product(*lists.values())]
    reports = mapped(simulate_from, [_with(asked, values) for values in combinations], ray=ray)
    named = [{flag_of(name).lstrip("-"): value for name, value in values.items()} for values in combinations]
    points = tuple(
        SweepPoint(values=values, result=replace(report.result, timeline=()))
        for values, report in zip(named, reports, strict=True)
    )
    return SweepReport(
        inputs={name: value for name, value in reports[0].inputs.items() if name not in names},
        result=SweepResult(points=points),
        assumptions=gathered((values, report.assumptions) for values, report in zip(named, reports, strict=True)),
        sources=tuple(dict.fromkeys(source for report in reports for source in report.sources)),
        warnings=_warnings(named, reports),
    )


def _with(asked: Asked, values: Mapping[str, str]) -> Asked:
    mine = field_names(SimulateSettings)
    own = {name: value for name, value in values.items() if name in mine}
    flags = {name: value for name, value in values.items() if name not in mine}
    return dataclasses.replace(asked, own={**asked.own, **own}, flags={**asked.flags, **flags})


def _warnings(named: Sequence[Mapping[str, Any]], reports: Sequence[Report]) -> tuple[str, ...]:
    found: dict[str, list[str]] = {}
    for values, report in zip(named, reports, strict=True):
        for warning in report.warnings:
            found.setdefault(warning, []).append(", ".join(f"{name} {value}" for name, value in values.items()))
    return tuple(
        warning if len(where) == len(reports) else f"{warning} ({'; '.join(where)})" for warning, where in found.items()
    )
