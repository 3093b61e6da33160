"""Curves: points of a sweep, and the largest batch under a target."""

import pytest

from kvcalc.answers.curve.answer import curve
from kvcalc.answers.question import ask
from kvcalc.answers.size.answer import size
from kvcalc.errors import KvcalcError
from kvcalc.results.curve import CurveResult

IDEAL = {"engine": "ideal", "kv_memory_bytes": "50GB"}


def run(flags: dict[str, str], **swept: list[str]) -> CurveResult:
    return curve("llama-3-8b", {"gpu": ["h100-sxm"], **swept}, flags).result


def test_the_lessons_batches() -> None:
    # Lesson 12, section 3: 16.06 GB of weights and 268 MB of cache a sequence at 3.35 TB/s; 186 sequences fit
    found = run(IDEAL, batch=["1", "64", "186", "187"], context=["2048"]).points
    times = [(16.0605e9 + batch * 2048 * 131_072) / 3.35e12 for batch in (1, 64, 186, 187)]
    assert [point.bound_s for point in found] == pytest.approx(times, rel=1e-4)
    assert [point.fits for point in found] == [True, True, True, False]


def test_batches_go_up_to_what_fits() -> None:
    assert [point.batch for point in run(IDEAL, context=["2048"]).points] == [1, 2, 4, 8, 16, 32, 64, 128, 186]


def test_the_largest_batch_under_a_target_keeps_it_and_the_next_does_not() -> None:
    found = run({"tpot_s": "15ms"}, context=["8192"])
    best = found.largest_batch_under_tpot
    assert best is not None
    times = [point.estimate_s for point in run({}, batch=[str(best), str(best + 1)], context=["8192"]).points]
    assert times[0] is not None
    assert times[1] is not None
    assert times[0].value <= 0.015 < times[1].value


def test_a_point_is_what_size_answers() -> None:
    (point,) = run({}, batch=["16"], context=["4096"]).points
    answer = size(ask("llama-3-8b", {"gpu": "h100-sxm", "batch": "16", "context": "4096"}), with_advice=False).result
    assert answer.estimate is not None
    assert point.estimate_s == answer.estimate.step_time_s
    assert point.output_tokens_per_s == answer.estimate.output_tokens_per_s.value


def test_a_curve_needs_a_gpu_and_an_end() -> None:
    with pytest.raises(KvcalcError, match="no GPU"):
        curve("llama-3-8b", {}, {})
    with pytest.raises(KvcalcError, match="points"):
        run({}, batch=[str(size) for size in range(1, 20_002)], context=["2048"])


def test_each_point_has_its_own_verdict_and_the_curve_the_best() -> None:
    """Lesson 12: 186 sequences of 2,048 in 50 GB. The order of the batches decides nothing."""
    found = run(IDEAL, batch=["500", "1", "187"], context=["2048"])
    assert [(point.batch, point.fit) for point in found.points] == [
        (500, "does_not_fit"), (1, "fits"), (187, "does_not_fit"),
    ]  # fmt: skip
    assert found.points[2].reason == "186 sequences of 2,048 fit, 187 asked"
    assert (found.fits, found.fit, found.reason) == (True, "fits", None)
    none = run(IDEAL, batch=["187"], context=["2048"])
    assert (none.fits, none.reason) == (False, "186 sequences of 2,048 fit, 187 asked")
