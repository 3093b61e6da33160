"""Comparisons: nonsense is refused, impossible combinations are rows, bounds are not ranked against estimates."""

from typing import Any

import pytest

from kvcalc.answers.compare.answer import compare
from kvcalc.errors import KvcalcError
from kvcalc.results.compare import CompareReport


def run(*models: str, **flags: Any) -> CompareReport:
    return compare(models or ("llama-3-8b",), {"gpu": ["h100-sxm"], **flags})


@pytest.mark.parametrize("flags", [
    {"gpu": ["h100-sxm", "h101"]},
    {"batch": ["8", "eight"]},
    {"kv_memory_bytes": ["50GB", "50"]},
    {"tensor_parallel_size": ["1", "0"]},
    {"engine": ["vllm", "vlm"]},
])  # fmt: skip
def test_a_value_that_nothing_makes_good_is_an_error(flags: dict[str, list[str]]) -> None:
    with pytest.raises(KvcalcError):
        run(**flags)


def test_an_unknown_model_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="no-such-model"):
        run("llama-3-8b", "no-such-model")


def test_a_combination_that_cannot_be_is_a_row() -> None:
    report = run(tensor_parallel_size=["1", "3"])
    errors = {row["tensor_parallel_size"]: row["error"] for row in report.result.rows}
    assert errors[1] is None
    assert "32 query heads" in errors[3]
    assert report.result.summary[0] == "1 of 2 fit."


def test_what_varies_is_in_base_units() -> None:
    rows = run(context=["4K", "8k"], price_usd_per_hour=["2.50"], kv_cache_dtype=["fp8"]).result.rows
    assert [row["context"] for row in rows] == [4096, 8000]
    assert [row["varies"] for row in rows] == [{"context": "4K"}, {"context": "8k"}]


def test_where_nothing_can_be_the_reason_is_the_error() -> None:
    with pytest.raises(KvcalcError, match="no GPU given"):
        compare(["llama-3-8b", "qwen3-8b"], {})


def test_a_bound_is_not_called_faster_than_an_estimate() -> None:
    report = run(engine=["ideal", "vllm", "sglang"], batch=["16"])
    assert not any(line.startswith("engine ideal") for line in report.result.summary if "roomier" not in line)


def test_assumptions_say_for_which_row_they_hold() -> None:
    report = run(gpu=["h100-sxm", "l40s"], price_usd_per_hour=["2"])
    said = {(one.name, one.value): one.why for one in report.assumptions}
    assert said["max_num_seqs", 1024].endswith("(h100-sxm)")
    assert said["max_num_seqs", 256].endswith("(l40s)")
    assert not said["runner", "V2"].endswith(")")


def test_the_verdict_is_of_what_fits_best() -> None:
    mixed, none = run("llama-3-70b", "llama-3-8b").result, run("llama-3-70b", "llama-2-70b").result
    assert (mixed.fits, mixed.fit, mixed.reason) == (True, "fits", None)
    assert (none.fits, none.fit) == (False, "does_not_fit")
    assert none.reason is not None
    assert "exceed the memory" in none.reason
