"""What `kvcalc calibrate` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Table, Text, all_assumed
from kvcalc.results.calibrate import CalibrateReport, CalibrateResult
from kvcalc.results.data import data_of
from kvcalc.units import format_bytes, format_decimal_bytes, format_seconds, format_si


def page(report: CalibrateReport) -> Page:
    result = report.result
    return Page(
        title=f"Calibration of {result.device}",
        verdict="quiet" if result.quiet else "not quiet",
        good=result.quiet,
        blocks=(_device(result), _linear(result), _attention(result), _state(result), *_saved(result)),
        notes=all_assumed(report),
    )


def _device(result: CalibrateResult) -> Block:
    rows = [
        ("memory", format_bytes(result.memory_bytes), ""),
        ("read bandwidth", _rate(result.read_bandwidth_bytes_per_s), _spread(result, "read")),
        ("copy bandwidth", _rate(result.copy_bandwidth_bytes_per_s), f"both ways; {_spread(result, 'copy')}"),
    ]
    rows += [
        (f"matrix product, {dtype}", format_si(peak, "FLOP/s"), _spread(result, f"matmul {dtype}"))
        for dtype, peak in result.peak_flops.items()
    ]
    where = "in a graph" if result.kind == "cuda" else "launched one by one"
    rows.append(("from kernel to kernel", format_seconds(result.dispatch_s), where))
    rows += [
        (
            f"norms and the like, {row.dtype}",
            format_seconds(row.layer_s),
            f"a layer{', between products' if row.cold else ''}{', with q and k norms' if row.qk_norm else ''}; "
            f"off by {row.error:.0%}",
        )
        for row in result.glue_rows
    ]
    return Facts(rows=tuple(rows))


def _spread(result: CalibrateResult, name: str) -> str:
    return f"windows within {result.spread[name] - 1:.0%}"


def _rate(value: float) -> str:
    return f"{format_decimal_bytes(value)}/s"


def _linear(result: CalibrateResult) -> Block:
    return Table(
        title="Products on few rows: latency + bytes / bandwidth",
        columns=("type", "rows", "latency", "bandwidth", "of read", "off by"),
        rows=tuple(
            (
                row.dtype,
                str(row.rows),
                format_seconds(row.latency_s),
                _rate(row.bandwidth_bytes_per_s),
                f"{row.bandwidth_bytes_per_s / result.read_bandwidth_bytes_per_s:.0%}",
                f"{row.error:.0%}",
            )
            for row in result.linear_rows
        ),
    )


def _attention(result: CalibrateResult) -> Block:
    return Table(
        title="Attention over pages: latency + bytes / bandwidth",
        columns=("type", "heads", "page", "latency", "bandwidth", "of read", "off by"),
        rows=tuple(
            (
                row.dtype,
                f"{row.group} × {row.head_dim}",
                str(row.page_size),
                format_seconds(row.latency_s),
                _rate(row.bandwidth_bytes_per_s),
                f"{row.bandwidth_bytes_per_s / result.read_bandwidth_bytes_per_s:.0%}",
                f"{row.error:.0%}",
            )
            for row in result.attention_rows
        ),
    )


def _state(result: CalibrateResult) -> Block:
    names = dict.fromkeys((*result.state_before, *result.state_after))
    rows = [(name, result.state_before.get(name, "–"), result.state_after.get(name, "–")) for name in names]
    return Table(title="State of the device", columns=("", "before", "after"), rows=tuple(rows))


def _saved(result: CalibrateResult) -> tuple[Block, ...]:
    if result.spec_file is None:
        return ()
    return (Text(title="Saved; other commands take it with --gpu", lines=(result.spec_file,)),)


def rows(report: CalibrateReport) -> list[dict[str, Any]]:
    """For CSV: one line a constant."""
    result = report.result
    found: list[dict[str, Any]] = [
        {"name": "read_bandwidth_bytes_per_s", "value": result.read_bandwidth_bytes_per_s},
        {"name": "copy_bandwidth_bytes_per_s", "value": result.copy_bandwidth_bytes_per_s},
        {"name": "dispatch_s", "value": result.dispatch_s},
    ]
    found += [{"name": "peak_flops", "dtype": dtype, "value": peak} for dtype, peak in result.peak_flops.items()]
    found += [{"name": "linear", **data_of(row)} for row in result.linear_rows]
    found += [{"name": "attention", **data_of(row)} for row in result.attention_rows]
    return found + [{"name": "glue", **data_of(row)} for row in result.glue_rows]
