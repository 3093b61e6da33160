"""Answers on a calibrated GPU say what they would be without: the figures of the GPU itself, at the same question."""

from pathlib import Path

import pytest

import kvcalc
from kvcalc.answers.device.calibration import toml_of
from kvcalc.catalog.gpus import load_gpu
from kvcalc.results.base import Report
from kvcalc.specs.base import replace
from kvcalc.specs.calibration import Calibration
from kvcalc.units import format_seconds

FACTORS = Calibration(engine="vllm", decode=1.3, prompt=0.8, overhead=1.2, measurements=4, source="bench.json",
                      served="llama-3.1-8b")  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.toml").write_text(toml_of(replace(load_gpu("h100-sxm"), calibration=FACTORS)))
    return str(tmp_path / "mine.toml")


def said(report: Report) -> str:
    (one,) = [one for one in report.assumptions if one.name == "calibration"]
    return one.why


def test_plan_says_them_at_the_clients_that_it_found(mine: str) -> None:
    asked = {"isl": 1000, "osl": 250, "request_rate": 4, "tpot": "40ms", "ttft": "2s", "tp": 1, "price": 2}
    found = kvcalc.plan("llama-3.1-8b", gpu=mine, **asked)
    clients = found.result.candidates[0].concurrency
    serving = kvcalc.size("llama-3.1-8b", gpu="h100-sxm", isl=1000, osl=250, concurrency=clients).result.serving
    assert serving is not None
    assert serving.tpot_s is not None
    assert f"TPOT {format_seconds(serving.tpot_s.value)}" in said(found)
    assert f"TTFT {format_seconds(serving.ttft_s.value)}" in said(found)


def test_simulate_says_them_of_the_same_requests(mine: str) -> None:
    asked = {"isl": 1000, "osl": 100, "request_rate": 3, "requests": 40, "price": 2}
    plain = kvcalc.simulate("llama-3.1-8b", gpu="h100-sxm", **asked).result
    assert plain.ttft_s is not None
    assert plain.tpot_s is not None
    means = [getattr(one.mean, "value", one.mean) for one in (plain.ttft_s, plain.tpot_s)]
    first, later = map(format_seconds, means)
    assert f"mean TTFT {first}, TPOT {later}" in said(kvcalc.simulate("llama-3.1-8b", gpu=mine, **asked))


def test_speculate_says_the_speed_up(mine: str) -> None:
    asked = {"draft": "llama-3.2-1b", "acceptance": 0.8, "gamma": 4, "context": 2048, "price": 2}
    plain = kvcalc.speculate("llama-3.1-8b", gpu="h100-sxm", **asked).result
    assert not isinstance(plain.speedup, float)
    want = f"a speed-up of {plain.speedup.value:.2f}, a plain step of {format_seconds(plain.plain_step_s)}"
    assert want in said(kvcalc.speculate("llama-3.1-8b", gpu=mine, **asked))


def test_what_was_not_measured_is_said(mine: str) -> None:
    assert "carried over" not in said(kvcalc.size("llama-3.1-8b", gpu=mine, price=2))
    assert "measured with llama-3.1-8b, and carried over to qwen3-8b TP2" in said(
        kvcalc.size("qwen3-8b", gpu=mine, tp=2, price=2)
    )
