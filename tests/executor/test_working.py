"""`--explain` of `run` and `calibrate`: each number of a kept result is a figure's, each formula gives its own."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import pytest

from kvcalc.answers.device.working import calibrate_working, run_working
from kvcalc.answers.explain import evaluate
from kvcalc.render.pages.calibrate import page as calibrate_page
from kvcalc.render.pages.run import page as run_page
from kvcalc.render.table import render
from kvcalc.results.base import Figure, Range
from kvcalc.results.calibrate import AttentionRow, CalibrateReport, CalibrateResult, GlueRow, LinearRow, Rate
from kvcalc.results.data import data_of
from kvcalc.results.run import Accuracy, Correct, Memory, RunPoint, RunReport, RunResult

# What was asked, counted or looked up; and the bounds, whose working is made where they are (`prediction.Term.bounds`).
ASKED = {
    *("batch", "context", "layers", "model_layers", "block_size", "bytes", "rows", "group", "head_dim", "page_size"),
    *("points", "checked", "limit", "processors", "l2_bytes", "bound_s", "ceiling_s", "value", "tiling"),
}


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in ASKED or (key == "points" and isinstance(one, list)):
                yield from numbers(one, key)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from numbers(one, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def point(batch: int, context: int, term: Any, estimate: float, measured: float) -> RunPoint:
    return RunPoint(
        batch=batch, context=context, term=term, bytes=1e9, bound_s=0.01, ceiling_s=0.02,
        estimate_s=Range(value=estimate, low=0.8 * estimate, high=1.25 * estimate), measured_s=measured,
        ratio=measured / estimate, drift=1.05, spread=1.02, resolved=True, bandwidth_bytes_per_s=1e9 / measured,
        bandwidth_share=1e9 / measured / 25e9, quiet=True, full_model_s=16 * measured if term == "step" else None,
    )  # fmt: skip


POINTS = tuple(
    point(batch, context, term, seconds, seconds * off)
    for batch, context, off in ((1, 512, 1.1), (10_000, 1_000_000, 0.93))
    for term, seconds in (("step", 0.041), ("weights", 0.031), ("kv", 0.0072), ("overhead", 0.0028))
)
RATE = Rate(latency_s=2.1e-5, bandwidth_bytes_per_s=23e9)
RUN = RunResult(
    model="nemotron-3-nano-30b-a3b-nvfp4", device="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    dtype="bf16", layers=2, model_layers=32, block_size=64, calibrated="2026-12-01T04:00:00+00:00",
    read_bandwidth_bytes_per_s=25e9, peak_flops=1.3e12, linear=RATE, attention=RATE, points=POINTS,
    accuracy=Accuracy(mean_error=0.085, worst_error=0.1, undrifted_mean_error=(0.155 + 0.0235) / 2,
                      undrifted_worst_error=0.155, points=2),
    memory=Memory(predicted_bytes=5 * 10**9, measured_bytes=5 * 10**9 + 64, predicted_weight_bytes=4 * 10**9,
                  measured_weight_bytes=4 * 10**9 + 64, predicted_cache_bytes=10**9, measured_cache_bytes=10**9),
    correct=Correct(max_rel_error=2e-3, limit=5e-3, passed=True, checked=96, written_rel_error=1e-3,
                    logits_rel_error=4e-3),
    sheet=None,
)  # fmt: skip
CALIBRATION = CalibrateResult(
    device="AMD EPYC 9004", kind="cpu", date="2026-12-01T04:00:00+00:00", versions={}, memory_bytes=64 * 10**9,
    processors=2, read_bandwidth_bytes_per_s=25e9, copy_bandwidth_bytes_per_s=21e9, peak_flops={"bf16": 1.3e12},
    dispatch_s=4e-6, linear=RATE, attention=RATE,
    linear_rows=(LinearRow(latency_s=2.1e-5, bandwidth_bytes_per_s=23e9, dtype="bf16", rows=1,
                           plain_bandwidth_bytes_per_s=19e9, times_s=(1e-4, 3e-4), error=0.03),),
    attention_rows=(AttentionRow(latency_s=2.1e-5, bandwidth_bytes_per_s=23e9, dtype="bf16", group=4, head_dim=128,
                                 page_size=64, times_s=(2e-4, 5e-4), error=0.04),),
    glue_rows=(GlueRow(dtype="bf16", cold=True, qk_norm=True, step_s=1e-4, layer_s=3e-5, bandwidth_bytes_per_s=8e9,
                       sampler_bandwidth_bytes_per_s=9e9, times_s=(6e-4, 7e-4), error=0.05),),
    spread={"read": 1.01, "copy": 1.02, "matmul bf16": 1.03}, state_before={}, state_after={}, quiet=True,
)  # fmt: skip


@pytest.mark.parametrize("found, figures", [(RUN, run_working(RUN)), (CALIBRATION, calibrate_working(CALIBRATION))])
def test_every_number_of_a_result_is_a_figures(found: Any, figures: tuple[Figure, ...]) -> None:
    known = sorted(float(value or 0) for one in figures for value in (one.value, *one.inputs.values()))
    for name, wanted in numbers(data_of(found)):
        place = bisect_left(known, wanted - abs(wanted) * 1e-9)
        assert place < len(known), (name, wanted)
        assert known[place] == pytest.approx(wanted, rel=2e-9), (name, wanted)
    assert len({one.name for one in figures}) == len(figures)
    for one in figures:
        assert evaluate(one) == one.value
        assert one.source


def test_pages_of_kept_results_have_rows_of_one_line() -> None:
    """A wide batch, a long device and model: 80 columns, and a row for each point."""
    pages = (
        run_page(RunReport(inputs={}, result=RUN)),
        calibrate_page(CalibrateReport(inputs={}, result=CALIBRATION)),
    )
    for page in pages:
        lines = render(page).splitlines()
        assert [line for line in lines if len(line) > 80] == []
    rows = [line for line in render(pages[0]).splitlines() if line.lstrip().startswith("10,000  1,000,000")]
    assert len(rows) == 5  # the step, its three terms, and the step of all layers
