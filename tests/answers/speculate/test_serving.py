"""Serving with drafts: times are speculation's where `--acceptance` says how many drafted tokens hold."""

import pytest

from kvcalc.answers.question import ask
from kvcalc.answers.size.answer import size
from kvcalc.answers.speculate.answer import SpeculateSettings, speculate
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Range
from kvcalc.results.size import SizeReport

AT = {"gpu": "h100-sxm", "tensor_parallel_size": "4"}
DRAFT = {"draft": "llama-3.2-1b", "num_speculative_tokens": "3"}
LENGTHS = {"input_len": "1000", "output_len": "500", "concurrency": "16"}
MEMORY_ONLY = "drafts count in memory only"


def sized(**flags: object) -> SizeReport:
    return size(ask("llama-3-70b", AT | flags))


def tpot(report: SizeReport) -> Range:
    assert report.result.serving is not None
    assert report.result.serving.tpot_s is not None
    return report.result.serving.tpot_s


def test_without_an_acceptance_times_are_plain_and_a_warning_says_so() -> None:
    plain, drafted = sized(**LENGTHS), sized(**LENGTHS, **DRAFT)
    assert tpot(drafted) == tpot(plain)
    assert any(MEMORY_ONLY in one for one in drafted.warnings)
    assert not any(MEMORY_ONLY in one for one in plain.warnings)


def test_with_one_a_step_is_as_much_faster_as_speculate_says() -> None:
    step = {"batch": "16", "context": "1250"}
    plain, drafted = sized(**step, **DRAFT).result.estimate, sized(**step, **DRAFT, acceptance=("0.8",))
    found = drafted.result.estimate
    alone = speculate(
        ask("llama-3-70b", AT | step), SpeculateSettings(draft="llama-3.2-1b", gamma=3, acceptance=(0.8,))
    )
    assert plain is not None
    assert found is not None
    assert isinstance(alone.result.speedup, Range)
    assert plain.step_time_s.value / found.step_time_s.value == pytest.approx(alone.result.speedup.value)
    # What is known of the gain widens the range; the bound stays below it.
    spread, before = (one.high / one.low for one in (found.step_time_s, plain.step_time_s))
    assert spread > before
    assert drafted.result.bound is not None
    assert drafted.result.bound.step_time_s <= found.step_time_s.low
    assert any(one.name == "speculation" for one in drafted.assumptions)
    assert not any(MEMORY_ONLY in one for one in drafted.warnings)


def test_tpot_tokens_and_cost_of_clients_follow() -> None:
    plain, drafted = sized(**LENGTHS, **DRAFT), sized(**LENGTHS, **DRAFT, acceptance=("0.8",))
    assert 0.4 < tpot(drafted).value / tpot(plain).value < 0.7
    served, before = drafted.result.serving, plain.result.serving
    assert served is not None
    assert before is not None
    assert served.output_tokens_per_s.value > 1.5 * before.output_tokens_per_s.value
    assert served.usd_per_million_output_tokens is not None
    assert before.usd_per_million_output_tokens is not None
    assert served.usd_per_million_output_tokens.value < before.usd_per_million_output_tokens.value / 1.5


def test_an_acceptance_that_nothing_drafts_for_is_listed() -> None:
    assert any("--acceptance" in one.name for one in sized(acceptance=("0.8",)).assumptions)


def test_one_rate_need_not_be_a_list() -> None:
    """Budgets, sweeps and Python give what may be repeated as one value."""
    step = {"batch": "16", "context": "1250", **DRAFT}
    assert sized(**step, acceptance=0.8).result.estimate == sized(**step, acceptance=("0.8",)).result.estimate


def test_more_drafts_than_positions() -> None:
    with pytest.raises(KvcalcError, match="3 tokens are drafted"):
        sized(**DRAFT, acceptance=("0.8", "0.6"))
