"""All small benchmarks of a device, in the order that wears it least, and whether it was quiet meanwhile."""

from collections.abc import Callable
from datetime import UTC, datetime

from kvcalc.answers.calibrated import spec_of
from kvcalc.executor import microbench
from kvcalc.executor.device import DTYPES
from kvcalc.executor.microbench_layer import Heads, attention_row, glue_rows
from kvcalc.executor.quiet import moved, wait_until_quiet
from kvcalc.executor.timing import STEADY, Bench
from kvcalc.reports.calibrate import AttentionRow, CalibrateReport, CalibrateResult, Rate

Progress = Callable[[str, float], None]  # what is done now, and the share of the whole that is done
DEFAULT = Heads("bf16", 4, 128, 64)


def silent(_what: str, _share: float) -> None:
    """For callers that show no progress."""


def calibrate(bench: Bench, heads: Heads = DEFAULT, progress: Progress = silent) -> CalibrateResult:
    """Measure the device.

    Args:
        heads: dtype of products, and the shape of heads and pages for attention.

    Raises:
        KvcalcError: no quiet moment came while patience lasted.
    """
    import torch

    with torch.inference_mode():
        return _measured(bench, heads, progress)


def _measured(bench: Bench, heads: Heads, progress: Progress) -> CalibrateResult:
    device = bench.device
    progress("waiting for a quiet moment", 0.0)
    reading = microbench.Reading(bench)
    before, start = device.state(), wait_until_quiet(device, reading.bandwidth, bench.patience)
    spread: dict[str, float] = {}
    progress("bandwidth", 0.05)
    read = reading.sample()
    spread["read"] = read.spread
    copied, sample = microbench.copy_bandwidth(bench)
    spread["copy"] = sample.spread
    peaks = {}
    for index, dtype in enumerate(DTYPES):
        progress(f"matrix product, {dtype}", 0.1 + 0.05 * index)
        peaks[dtype], sample = microbench.matmul_peak(bench, dtype)
        spread[f"matmul {dtype}"] = sample.spread
    gap, sample = microbench.dispatch(bench)
    spread["dispatch"] = sample.spread
    first = CalibrateResult(
        device=device.name,
        kind=device.kind,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=device.versions(),
        memory_bytes=device.memory_bytes,
        compute_capability=device.compute_capability,
        processors=device.processors,
        l2_bytes=device.cache_bytes if device.is_gpu else None,
        read_bandwidth_bytes_per_s=reading.buffer.nbytes / read.value,
        copy_bandwidth_bytes_per_s=copied,
        peak_flops=peaks,
        dispatch_s=gap,
        linear=Rate(latency_s=0, bandwidth_bytes_per_s=1),
        attention=Rate(latency_s=0, bandwidth_bytes_per_s=1),
        linear_rows=(),
        attention_rows=(),
        glue_rows=(),
        spread=spread,
        state_before=before,
        state_after={},
        quiet=True,
    )
    found = completed(first, bench, heads, progress)
    last = reading.bandwidth()
    stayed = not moved(first.read_bandwidth_bytes_per_s, last, start.bandwidth_bytes_per_s)
    row, attention = found.linear_rows[0], found.attention_rows[0]
    return found.model_copy(
        update={
            "linear": Rate(latency_s=row.latency_s, bandwidth_bytes_per_s=row.bandwidth_bytes_per_s),
            "attention": Rate(latency_s=attention.latency_s, bandwidth_bytes_per_s=attention.bandwidth_bytes_per_s),
            "state_after": device.state(),
            "quiet": start.quiet and stayed,
        }
    )


def completed(result: CalibrateResult, bench: Bench, heads: Heads, progress: Progress = silent) -> CalibrateResult:
    """The result with the constants for these heads and this dtype; measured where they are not in it yet."""
    linear, glue, spread = list(result.linear_rows), list(result.glue_rows), dict(result.spread)
    attention = list(result.attention_rows)
    dtype = heads.dtype
    if not any(row.dtype == dtype for row in linear):
        progress(f"products on few rows, {dtype}", 0.25)
        matrices = microbench.matrix_sets(bench.device, dtype)
        for index, rows in enumerate(microbench.ROWS):
            progress(f"products on {rows} rows, {dtype}", 0.3 + 0.05 * index)
            one, sample = microbench.linear_row(bench, dtype, rows, matrices)
            linear.append(one)
            spread[f"linear {dtype}, {rows} rows"] = sample.spread
        del matrices
    if not any((row.dtype, row.qk_norm) == (dtype, heads.qk_norm) for row in glue):
        progress(f"norms and sampler, {dtype}", 0.7)
        others, sample = glue_rows(bench, dtype, heads.qk_norm)
        glue += others
        spread[f"glue {dtype}{', normalised queries' if heads.qk_norm else ''}"] = sample.spread
    if find_attention(result, heads) is None:
        progress(f"attention, {heads.group} heads of {heads.head_dim}", 0.8)
        third, sample = attention_row(bench, heads)
        attention.append(third)
        spread[f"attention {dtype}, {heads.group} × {heads.head_dim}, pages of {heads.page_size}"] = sample.spread
    progress("done", 1.0)
    return result.model_copy(
        update={
            "linear_rows": tuple(linear),
            "glue_rows": tuple(glue),
            "attention_rows": tuple(attention),
            "spread": spread,
        }
    )


def find_attention(result: CalibrateResult, heads: Heads) -> AttentionRow | None:
    """The row of these heads; None: not measured yet."""
    wanted = (heads.dtype, heads.group, heads.head_dim, heads.page_size)
    return next(
        (row for row in result.attention_rows if (row.dtype, row.group, row.head_dim, row.page_size) == wanted), None
    )


def report_of(result: CalibrateResult) -> CalibrateReport:
    """The answer of `kvcalc calibrate`."""
    warnings = []
    if not result.quiet:
        warnings.append("the device was not quiet: the figures are what it did, not what it can")
    shaky = sorted(name for name, spread in result.spread.items() if spread > STEADY)
    if shaky:
        warnings.append(f"windows spread by more than {STEADY - 1:.0%}: {', '.join(shaky)}")
    return CalibrateReport(
        inputs={"device": result.device, "dtype": result.linear_rows[0].dtype},
        result=result,
        sources=tuple(spec_of(result).sources.values()),
        warnings=tuple(warnings),
    )
