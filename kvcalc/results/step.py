"""The answer to `kvcalc step`: one decode step taken apart. Of one GPU."""

from typing import ClassVar, Literal

from kvcalc.results.base import Fit, Range, Report
from kvcalc.results.paging import Paging
from kvcalc.results.performance import Serving
from kvcalc.specs.base import Frozen


class OperatorRow(Frozen):
    """One operator of the step: bytes, FLOPs and bound of all `count` calls together."""

    name: str
    count: int
    bytes: float
    flops: float
    time_s: float
    limit: Literal["memory", "compute", "link", "engine"]
    estimate_s: float | None = None
    share: float = 0.0  # of the step's time, by the estimates where there are any

    @property
    def best_s(self) -> float:
        """The estimate where there is one, else the bound."""
        return self.time_s if self.estimate_s is None else self.estimate_s


class MatmulThreshold(Frozen):
    """Rows from which a D × F matmul is compute-bound; None where it never is (D·F ≤ R(D + F))."""

    name: str
    d: int
    f: int
    rows: float | None


class Intensity(Frozen):
    """The step's intensity is the byte-weighted mean of the weights' and the cache's."""

    weight_share: float
    cache_share: float
    weight_flop_per_byte: float
    cache_flop_per_byte: float


class StepResult(Frozen):
    """Throughput of the deployment; the rest of one GPU, with pipeline stages of one GPU of each stage together."""

    model: str
    gpu: str
    gpus: int
    stages: int
    fits: bool | None
    fit: Fit
    reason: str | None
    batch: int
    context: int
    bytes: float
    weight_bytes: float
    cache_bytes: float
    flops: float
    intensity_flop_per_byte: float
    intensity: Intensity
    ridge_flop_per_byte: float
    memory_time_s: float
    compute_time_s: float
    bound_s: float
    limit: Literal["memory", "compute"]
    operator_bound_s: float | None
    estimate_s: Range | None
    output_tokens_per_s: float
    operators: tuple[OperatorRow, ...]
    matmul_thresholds: tuple[MatmulThreshold, ...]
    tokens_per_step: int | None = None  # of each sequence, for models that run many tokens a step and keep no cache
    serving: Serving | None = None  # plain, where lengths are given
    paging: Paging | None = None


class StepReport(Report):
    command: ClassVar[str] = "step"
    result: StepResult
