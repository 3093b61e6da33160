"""The answer to `kvcalc check`: do the deployments still meet their limits."""

from typing import ClassVar

from kvcalc.results.base import Report
from kvcalc.results.changes import Baseline
from kvcalc.results.size import Advice
from kvcalc.specs.base import Frozen


class LimitResult(Frozen):
    """One limit: what was wanted, what is there, and by how much it misses (0.1: 10 %)."""

    name: str
    want: float | bool
    have: float | bool | None
    passed: bool
    miss: float | None = None
    line: int = 1  # of the file
    mend: Advice | None = None  # of a broken one, the change that helps it most
    judged_on: str = ""  # estimate's high, estimate, bound, or nothing where the figure is exact


class CheckedDeployment(Frozen):
    """One deployment of the file, its limits, and what would mend a broken one."""

    name: str
    model: str
    gpu: str
    header: str  # the deployment in one line
    line: int  # of its table in the file
    passed: bool
    fits: bool | None  # as the limits are judged; None: it cannot be judged
    reason: str | None  # why it does not fit, or cannot be judged
    limits: tuple[LimitResult, ...]
    advice: tuple[Advice, ...] = ()
    doubts: tuple[str, ...] = ()  # what the model's config says and is not understood; errors where `strict`
    command: str | None = None  # that starts it


class CheckResult(Frozen):
    """Passed where every deployment did; failures first."""

    passed: bool
    deployments: tuple[CheckedDeployment, ...]
    baseline: Baseline | None = None  # what has changed since


class CheckReport(Report):
    command: ClassVar[str] = "check"
    result: CheckResult
