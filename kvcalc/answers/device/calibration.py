"""A calibration as a GPU spec: what every other command takes for `--gpu`."""

import re

from kvcalc.results.calibrate import CalibrateResult
from kvcalc.results.data import said_of
from kvcalc.specs.base import Source
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import AttentionKernel, GemmKernel, Kernels

VENDORS = ("NVIDIA", "AMD", "Intel", "Apple")


def spec_name(device: str) -> str:
    """A device's name as a file's.

    >>> spec_name("NVIDIA H200"), spec_name("AMD EPYC 9B14, 2 cores")
    ('nvidia-h200', 'amd-epyc-9b14-2-cores')
    """
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")[:80] or "device"


def spec_of(result: CalibrateResult) -> GpuSpec:
    """Bandwidth and peaks as measured, and the kernels' shares of them."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    source = Source(
        what=f"measured on {result.device} by kvcalc calibrate",
        date=result.date[:10],
        confidence="high" if result.quiet else "low",
        note=versions if result.quiet else f"{versions}; the device was not quiet",
    )
    vendor = next((name for name in VENDORS if name.lower() in result.device.lower()), "unknown")
    return GpuSpec(
        name=spec_name(result.device),
        title=f"{result.device} (measured)",
        vendor=vendor,
        architecture="CPU" if result.kind == "cpu" else "GPU",
        memory_bytes=result.memory_bytes,
        usable_memory_bytes=result.memory_bytes,
        memory_bandwidth_bytes_per_s=result.read_bandwidth_bytes_per_s,
        peak_flops=dict(result.peak_flops),
        unified_memory=result.kind == "cpu",
        l2_bytes=result.l2_bytes,
        sm_count=result.processors if result.kind == "cuda" else None,
        compute_capability=result.compute_capability,
        kernels=_kernels(result),
        sources={"*": source},
    )


def _kernels(result: CalibrateResult) -> Kernels:
    bandwidth = result.read_bandwidth_bytes_per_s
    rows = {row.dtype: row for row in result.linear_rows if row.rows == 1}
    heads = {row.dtype: row for row in reversed(result.attention_rows)}
    return Kernels(
        evidence=f"kvcalc calibrate on {result.device}",
        date=result.date[:10],
        gemm=tuple(
            GemmKernel(
                dtype=dtype,
                latency_s=row.latency_s,
                bandwidth_share=_share(row.bandwidth_bytes_per_s / bandwidth),
                flops_share=1.0,  # of a peak that was measured
                error=row.error,
            )
            for dtype, row in rows.items()
        ),
        attention=tuple(
            AttentionKernel(
                dtype=dtype,
                library="any",  # stands for every engine's kernels on this device
                latency_s=row.latency_s,
                bandwidth_share=_share(row.bandwidth_bytes_per_s / bandwidth),
                error=row.error,
            )
            for dtype, row in heads.items()
        ),
    )


def _share(value: float) -> float:
    return min(4.0, max(1e-6, value))


def toml_of(spec: GpuSpec) -> str:
    """The spec as a TOML file."""
    import tomli_w

    return f"# Written by kvcalc calibrate: measured, not from a data sheet.\n{tomli_w.dumps(said_of(spec))}"
