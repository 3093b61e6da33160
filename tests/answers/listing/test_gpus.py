"""`kvcalc gpus`: the list, and one accelerator with the source of each number."""

from datetime import date

import pytest

from kvcalc.answers.explain import evaluate
from kvcalc.answers.listing.gpus import list_gpus, show_gpu
from kvcalc.catalog.gpus import gpu_names
from kvcalc.errors import KvcalcError


def test_the_list_has_every_spec() -> None:
    rows = list_gpus().result.gpus
    assert sorted(row.name for row in rows) == list(gpu_names())
    assert len(rows) >= 300
    h100 = next(row for row in rows if row.name == "h100-sxm")
    # 989 TFLOP/s over 3.35 TB/s
    assert (h100.peak_dtype, round(h100.ridge_flop_per_byte)) == ("bf16", 295)
    assert next(row for row in rows if row.name == "t4").peak_dtype == "fp16"
    assert next(row for row in rows if row.name == "gb10").price_usd_per_hour is None


def test_one_gpu_shows_its_numbers_and_sources() -> None:
    report = show_gpu("H200", date(2026, 12, 1))
    result = report.result
    assert result.name == "h200-sxm"
    numbers = {number.name: number for number in result.numbers}
    assert numbers["memory_bandwidth_bytes_per_s"].value == 4.8e12
    assert numbers["peak_flops.fp8"].unit == "FLOP/s"
    assert numbers["links.nvlink"].source is not None
    assert set(result.ridge_flop_per_byte) == set(result.peak_flops)
    assert result.price is not None
    assert result.price_age_days == 134  # since 20 July
    assert "134 days ago" in report.warnings[0]
    assert report.assumptions[0].value == "h200-sxm"


def test_ridge_points_show_their_working() -> None:
    for figure in show_gpu("b200-sxm").figures:
        assert evaluate(figure) == pytest.approx(figure.value)


def test_a_fresh_price_is_no_warning() -> None:
    assert show_gpu("l4", date(2026, 8, 1)).warnings == ()
    assert list_gpus(date(2026, 8, 1)).warnings == ()
    assert list_gpus(date(2027, 8, 1)).warnings


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(KvcalcError):
        show_gpu("h9000")


def test_the_list_is_grouped_and_can_be_searched() -> None:
    report = list_gpus(match="AMD desktop")
    rows = report.result.gpus
    assert {(row.vendor, row.segment) for row in rows} == {("AMD", "desktop")}
    assert "rx7900xtx" in {row.name for row in rows}
    assert len(rows) + report.result.left_out == len(gpu_names())
    every = [(row.vendor, row.segment) for row in list_gpus().result.gpus]
    assert len(dict.fromkeys(every)) == sum(a != b for a, b in zip(every, [None, *every], strict=False))
    with pytest.raises(KvcalcError, match="--match"):
        list_gpus(match="no such card")


def test_a_name_of_several_boards_lists_them() -> None:
    result = show_gpu("m4 max").result
    assert result.name == "apple-m4-max-40c-128g"
    assert [board.name for board in result.other_boards] == [
        "apple-m4-max-40c-64g", "apple-m4-max-40c-48g", "apple-m4-max-32c-36g",
    ]  # fmt: skip
    assert {number.name for number in result.numbers} >= {"memory_settings.older macOS"}
