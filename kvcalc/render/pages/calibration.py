"""What `kvcalc calibrate --from` shows."""

from typing import Any

from kvcalc.render.page import Facts, Page, Table, Text, all_assumed
from kvcalc.results.calibration import CalibrationReport
from kvcalc.results.data import data_of
from kvcalc.units import format_seconds


def page(report: CalibrationReport) -> Page:
    result = report.result
    facts = Facts(
        (
            ("decode steps", f"× {result.decode:.3f}", "kernels of a step"),
            ("prompts", f"× {result.prompt:.3f}", "kernels of a prompt"),
            ("engine", f"× {result.overhead:.3f}", "scheduler, sampling, launches, front end"),
            ("error", f"{result.error:.1%}", f"{result.error_without:.1%} without the factors"),
        )
    )
    lines = tuple(
        (one.name, format_seconds(one.measured_s), format_seconds(one.predicted_s), format_seconds(one.calibrated_s))
        for one in result.measurements
    )
    table = Table(("measurement", "measured", "predicted", "calibrated"), lines)
    saved = () if result.spec_file is None else (Text((result.spec_file,), "Saved; other commands take it with --gpu"),)
    return Page(
        title=f"{result.model} on {result.gpu}: measured over predicted",
        blocks=(facts, table, *saved),
        notes=all_assumed(report),
    )


def rows(report: CalibrationReport) -> list[dict[str, Any]]:
    return [data_of(one) for one in report.result.measurements]
