"""All small benchmarks of a device, in the order that wears it least, and whether it was quiet meanwhile."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvcalc import clock
from kvcalc.answers.device.calibration import spec_of
from kvcalc.answers.device.constants import find_attention
from kvcalc.answers.device.working import calibrate_working
from kvcalc.executor import microbench
from kvcalc.executor.device import DTYPES
from kvcalc.executor.microbench_layer import Heads, attention_row, glue_rows
from kvcalc.executor.quiet import moved, wait_until_quiet
from kvcalc.executor.timing import STEADY, Bench
from kvcalc.results.calibrate import AttentionRow, CalibrateReport, CalibrateResult, GlueRow, LinearRow, Rate
from kvcalc.specs.base import replace
from kvcalc.specs.gpu import GpuSpec

Progress = Callable[[str, float], None]  # what is done now, and the share of the whole that is done
LEAST_OF_SHEET = 0.8  # of the bandwidth: less is no healthy GPU
LEAST_CAPABILITY = 8.0
DEFAULT = Heads("bf16", 4, 128, 64)


def silent(_what: str, _share: float) -> None:
    """For callers that show no progress."""


def calibrate(
    bench: Bench, heads: Heads = DEFAULT, rows: Iterable[int] = microbench.ROWS, progress: Progress = silent
) -> CalibrateResult:
    """Measure the device.

    Args:
        heads: dtype of products, and the shape of heads and pages for attention.
        rows: of the products, one row among them.

    Raises:
        KvcalcError: no quiet moment came while patience lasted.
    """
    import torch

    with torch.inference_mode():
        return _measured(bench, heads, rows, progress)


def _measured(bench: Bench, heads: Heads, rows: Iterable[int], progress: Progress) -> CalibrateResult:
    device = bench.device
    progress("waiting for a quiet moment", 0.0)
    reading = microbench.Reading(bench)
    before, start = reading.state(), wait_until_quiet(device, reading.bandwidth, bench.patience)
    spread: dict[str, float] = {}
    progress("bandwidth", 0.05)
    read = reading.sample()
    spread["read"] = read.spread
    copied, sample = microbench.copy_bandwidth(bench)
    spread["copy"] = sample.spread
    peaks = _peaks(bench, spread, progress)
    gap, sample = microbench.dispatch(bench)
    spread["dispatch"] = sample.spread
    found = _missing(Rows((), (), (), spread), bench, heads, rows, progress)
    bandwidth = reading.buffer.nbytes / read.value
    stayed = not moved(bandwidth, reading.bandwidth(), start.bandwidth_bytes_per_s)
    return CalibrateResult(
        device=device.name,
        kind=device.kind,
        date=clock.now().isoformat(timespec="seconds"),
        versions=device.versions(),
        memory_bytes=device.memory_bytes,
        compute_capability=device.compute_capability,
        processors=device.processors,
        l2_bytes=device.cache_bytes if device.is_gpu else None,
        read_bandwidth_bytes_per_s=bandwidth,
        copy_bandwidth_bytes_per_s=copied,
        peak_flops=peaks,
        dispatch_s=gap,
        linear=rate_of(found.linear[0]),
        attention=rate_of(found.attention[0]),
        linear_rows=found.linear,
        attention_rows=found.attention,
        glue_rows=found.glue,
        spread=found.spread,
        state_before=before,
        state_after=reading.state(),
        quiet=start.quiet and stayed and not bench.disturbed,
    )


def _peaks(bench: Bench, spread: dict[str, float], progress: Progress) -> dict[str, float]:
    """FLOP/s of large products by element type; how far their windows spread goes into `spread`."""
    peaks = {}
    for index, dtype in enumerate(DTYPES):
        progress(f"matrix product, {dtype}", 0.1 + 0.05 * index)
        peaks[dtype], sample = microbench.matmul_peak(bench, dtype)
        spread[f"matmul {dtype}"] = sample.spread
    return peaks


def rate_of(row: Rate) -> Rate:
    """Latency and bandwidth of a row, without what it was measured for."""
    return Rate(latency_s=row.latency_s, bandwidth_bytes_per_s=row.bandwidth_bytes_per_s)


def completed(
    result: CalibrateResult, bench: Bench, heads: Heads, rows: Iterable[int], progress: Progress = silent
) -> CalibrateResult:
    """The result with the constants for these heads, this dtype and these rows; measured where it lacks them."""
    known = Rows(result.linear_rows, result.glue_rows, result.attention_rows, result.spread)
    found = _missing(known, bench, heads, rows, progress)
    return replace(
        result,
        quiet=result.quiet and not bench.disturbed,
        linear_rows=found.linear,
        glue_rows=found.glue,
        attention_rows=found.attention,
        spread=found.spread,
    )


@dataclass(frozen=True)
class Rows:
    """The constants of the executor's parts, and how far the windows of each benchmark spread."""

    linear: tuple[LinearRow, ...]
    glue: tuple[GlueRow, ...]
    attention: tuple[AttentionRow, ...]
    spread: dict[str, float]


def _missing(known: Rows, bench: Bench, heads: Heads, rows: Iterable[int], progress: Progress) -> Rows:
    """What is known, and what these heads and rows need beyond it."""
    linear, glue, attention, spread = list(known.linear), known.glue, known.attention, dict(known.spread)
    dtype = heads.dtype
    lacking = sorted(set(rows) - {row.rows for row in linear if row.dtype == dtype})
    if lacking:
        progress(f"products, {dtype}", 0.25)
        matrices = microbench.matrix_sets(bench.device, dtype)
        for index, count in enumerate(lacking):
            progress(f"products on {count} rows, {dtype}", 0.3 + 0.4 * index / len(lacking))
            one, sample = microbench.linear_row(bench, dtype, count, matrices)
            linear.append(one)
            spread[f"linear {dtype}, {count} rows"] = sample.spread
        del matrices
    if not any((row.dtype, row.qk_norm) == (dtype, heads.qk_norm) for row in glue):
        progress(f"norms and sampler, {dtype}", 0.7)
        found, sample = glue_rows(bench, dtype, heads.qk_norm)
        glue += found
        spread[f"glue {dtype}{', normalised queries' if heads.qk_norm else ''}"] = sample.spread
    if find_attention(attention, *heads.shape) is None:
        progress(f"attention, {heads.group} heads of {heads.head_dim}", 0.85)
        row, sample = attention_row(bench, heads)
        attention += (row,)
        spread[f"attention {dtype}, {heads.group} × {heads.head_dim}, pages of {heads.page_size}"] = sample.spread
    progress("measured", 1.0)
    return Rows(tuple(linear), glue, attention, spread)


def doubts(result: CalibrateResult, sheet: GpuSpec | None) -> list[str]:
    """What speaks against a device's figures: far below its data sheet, or too old for the kernels' matrix units."""
    found = []
    if sheet is not None and result.read_bandwidth_bytes_per_s < LEAST_OF_SHEET * sheet.memory_bandwidth_bytes_per_s:
        share = result.read_bandwidth_bytes_per_s / sheet.memory_bandwidth_bytes_per_s
        why = "is it another board, in use, or throttled?"
        found.append(f"it reads at {share:.0%} of the data sheet's bandwidth ({sheet.title}): {why}")
    capability = result.compute_capability
    if capability is not None and float(capability) < LEAST_CAPABILITY:
        why = "attention with shared KV heads has no matrix units there and is slow"
        found.append(f"compute capability {capability} is below {LEAST_CAPABILITY:g}: {why}")
    return found


def report_of(result: CalibrateResult, sheet: GpuSpec | None = None) -> CalibrateReport:
    """The answer of `kvcalc calibrate`; `sheet`: what the device's data sheet says, where one is known."""
    warnings = []
    if not result.quiet:
        warnings.append("the device was not quiet: the figures are what it did, not what it can")
    shaky = sorted(name for name, spread in result.spread.items() if spread > STEADY[result.kind])
    if shaky:
        warnings.append(f"windows spread by more than {STEADY[result.kind] - 1:.0%}: {', '.join(shaky)}")
    warnings += doubts(result, sheet)
    return CalibrateReport(
        inputs={"device": result.device, "dtype": result.linear_rows[0].dtype},
        result=result,
        figures=calibrate_working(result),
        sources=tuple(spec_of(result).sources.values()),
        warnings=tuple(warnings),
    )
