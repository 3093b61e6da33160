"""The answer to `kvcalc run`: what a decode step took on this device, term by term, against what was predicted."""

from typing import ClassVar, Literal

from kvcalc.results.base import Range, Report
from kvcalc.results.calibrate import Rate
from kvcalc.specs.base import Frozen

TermName = Literal["step", "weights", "kv", "overhead"]


class RunPoint(Frozen):
    """One term of one decode step: the whole, what leaving weights or cache out saved, and what then remained."""

    batch: int
    context: int
    term: TermName
    bytes: float  # weights and cache that it has to read
    bound_s: float  # at the data sheet's rates
    ceiling_s: float  # at the measured bandwidth and matrix rate
    estimate_s: Range  # from calibrated latencies and bandwidths, as they are beside the point
    measured_s: float
    ratio: float  # measured_s / estimate_s.value
    drift: float  # estimate_s.value over what it is with the constants of the calibration
    spread: float  # 90th over 10th percentile of the measured windows
    resolved: bool  # False: a difference of two steps that is no more than their noise
    bandwidth_bytes_per_s: float | None  # bytes / measured_s; None where nothing is read, or not resolved
    bandwidth_share: float | None  # of the measured read bandwidth
    quiet: bool  # the device's own bandwidth stayed the same meanwhile, and is what it was at calibration
    full_model_s: float | None = None  # of all layers, where some were cut off: their estimate times `ratio`


class Memory(Frozen):
    """Bytes of the largest point."""

    predicted_bytes: int
    measured_bytes: int
    predicted_weight_bytes: int
    measured_weight_bytes: int
    predicted_cache_bytes: int
    measured_cache_bytes: int


class Correct(Frozen):
    """The paged step against a dense one in float64 that shares neither its attention nor its pages."""

    max_rel_error: float  # of attention outputs, |difference| / |dense|, the worst of all compared
    limit: float
    passed: bool
    checked: int  # attention outputs compared: layers × sequences × steps
    written_rel_error: float  # of the new key and value in the first layer's page
    logits_rel_error: float  # through all layers; grows with depth as rounding does, so it has no limit


class Generated(Frozen):
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


class Accuracy(Frozen):
    """|measured / estimate - 1| over the whole steps."""

    mean_error: float
    worst_error: float
    undrifted_mean_error: float  # against estimates with the constants of the calibration
    undrifted_worst_error: float
    points: int


class RunResult(Frozen):
    model: str
    device: str
    dtype: str
    layers: int
    model_layers: int
    block_size: int
    calibrated: str  # when
    read_bandwidth_bytes_per_s: float
    peak_flops: float
    linear: Rate
    attention: Rate
    points: tuple[RunPoint, ...]
    accuracy: Accuracy
    memory: Memory
    correct: Correct
    generated: tuple[Generated, ...] = ()
    sheet: str | None  # the data sheet that bound_s is from; None: there is none, so the measured rates stand in


class RunReport(Report):
    command: ClassVar[str] = "run"
    result: RunResult
