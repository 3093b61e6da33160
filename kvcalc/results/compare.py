"""The answer to `kvcalc compare`: the same question over several values, ranked."""

from typing import Any, ClassVar

from kvcalc.results.base import Fit, Report
from kvcalc.results.changes import Baseline
from kvcalc.results.size import SizeResult
from kvcalc.specs.base import Frozen

# Long flags as people say them.
SHORT = {
    "tensor-parallel-size": "tp",
    "pipeline-parallel-size": "pp",
    "data-parallel-size": "dp",
    "decode-context-parallel-size": "dcp",
}


class CompareRow(Frozen):
    """What varies, and the figures of `size`; `error` where the combination is not possible."""

    varies: dict[str, Any]  # by flag, as typed
    at: dict[str, Any]  # by field, in base units
    size: SizeResult | None
    error: str | None = None


class CompareResult(Frozen):
    """Rows in the order of the ranking, with what varies and the figures of `size`. `fits` is of the first row."""

    fits: bool | None
    fit: Fit
    reason: str | None
    varying: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]  # each: what varies, then the figures of `size`
    summary: tuple[str, ...]
    baseline: Baseline | None = None  # what has changed since


class CompareReport(Report):
    command: ClassVar[str] = "compare"
    result: CompareResult
