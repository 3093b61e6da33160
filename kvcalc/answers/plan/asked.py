"""What a plan is asked, read from flags and settings."""

from typing import Any, NamedTuple

from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.money import ApiPrice
from kvcalc.answers.plan.search import Limits
from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.plan.traced import Traced
from kvcalc.specs.load import Workload


class Asked(NamedTuple):
    """One plan's question."""

    model: str
    given: dict[str, list[Any]]  # flags by field, each with the values that are to be tried
    settings: PlanSettings
    workload: Workload
    demand: Demand
    targets: Targets
    limits: Limits
    api: ApiPrice | None
    traced: Traced
