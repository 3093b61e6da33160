"""From what the user typed to a plan: the same for a command line and for Python."""

from collections.abc import Mapping
from typing import Any

from kvcalc.answers.plan.answer import Progress, plan
from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.results.plan import PlanReport
from kvcalc.specs.checked import settings_of


def plan_from(
    model: str,
    flags: Mapping[str, Any],
    progress: Progress = lambda _what, _share: None,
    cores: int = 1,
    explain: bool = False,
) -> PlanReport:
    """The deployments that meet the flags' workload, `plan`'s own among them."""
    settings, left = settings_of(PlanSettings, flags)
    return plan(model, left, settings, progress, cores, with_working=explain)
