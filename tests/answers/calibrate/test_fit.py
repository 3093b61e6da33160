"""Factors from measurements: what was put in comes out, and answers on a calibrated GPU say both figures."""

import json
from pathlib import Path

import pytest

from kvcalc.answers.calibrate.answer import calibrate_from
from kvcalc.answers.calibrate.fit import fit
from kvcalc.answers.calibrate.observed import observations
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.device.calibration import toml_of
from kvcalc.answers.explain import evaluate
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question, ask
from kvcalc.answers.size.answer import size
from kvcalc.catalog.bench.measurement import Served, Timed
from kvcalc.catalog.gpus import load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.calibration import Calibration
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import ENGINE_TIMES

H100 = {"gpu": "h100-sxm", "max_model_len": "8192"}
# Clients 1 to 64, prompts from 200 to 4,000 tokens: all three terms speak.
LOADS = [(200, 400, 1), (4000, 50, 8), (1000, 250, 16), (500, 500, 64), (2000, 100, 32)]


def measured(question: Question, factors: Calibration) -> list[Served]:
    """What a machine with these factors would have measured."""
    plain = [Served(i, o, n, 10 * n, 1.0, 1.0, f"{i}-{o}-{n}") for i, o, n in LOADS]
    said = [one.predict(factors) for one in observations(question, plain)]
    return [
        one._replace(tpot_s=tpot, ttft_s=ttft) for one, tpot, ttft in zip(plain, said[::2], said[1::2], strict=True)
    ]


@pytest.mark.parametrize("want", [(1.3, 0.8, 1.0), (0.9, 1.5, 2.0), (1.0, 1.0, 1.0)])
def test_known_factors_are_found(want: tuple[float, float, float]) -> None:
    question = ask("llama-3.1-8b", H100)
    truth = Calibration(engine="vllm", decode=want[0], prompt=want[1], overhead=want[2])
    found = fit("vllm", observations(question, measured(question, truth)))
    assert (found.decode, found.prompt, found.overhead) == pytest.approx(want, rel=0.03)
    assert found.error is not None
    assert found.error < 0.01


def test_a_term_without_a_measurement_stays() -> None:
    question = ask("llama-3.1-8b", {"gpu": "rtx3090", "engine": "llamacpp", "quantization": "q4_k_m"})
    (one,) = observations(question, [Timed(True, 128, 0, 1, 1.0, "bench")])
    slow = Timed(True, 128, 0, 1, 1.25 * one.predict(Calibration(engine="llamacpp")), "bench")
    found = fit("llamacpp", observations(question, [slow]))
    assert found.decode == pytest.approx(1.25, rel=0.01)
    assert (found.prompt, found.overhead) == (1, 1)


def test_llama_bench_is_of_llama_cpp() -> None:
    with pytest.raises(KvcalcError, match="llama-bench"):
        observations(ask("llama-3.1-8b", H100), [Timed(True, 128, 0, 1, 0.01, "bench")])


def test_every_time_of_a_profile_is_the_engines() -> None:
    assert {name for name in Profile._fields if name.endswith("_s") and name != "reread_bytes_per_s"} == set(
        ENGINE_TIMES
    )


def test_saved_and_from_then_on_said_with_both_figures(tmp_path: Path) -> None:
    # 16 clients, 0.09 + 249 · 0.012 s each: 100 requests in 19.24 s.
    bench = {
        "completed": 100, "duration": 19.24, "total_input_tokens": 100_000, "total_output_tokens": 25_000,
        "mean_ttft_ms": 90.0, "mean_tpot_ms": 12.0, "max_concurrency": 16, "model_id": "m",
    }  # fmt: skip
    (tmp_path / "bench.json").write_text(json.dumps(bench))
    question = ask("llama-3.1-8b", H100)
    report, gpu = calibrate_from(question, [tmp_path / "bench.json"])
    assert report.result.error < report.result.error_without
    figures = {one.name: one for one in report.figures}
    assert len(figures) == len(report.figures)
    assert all(evaluate(one) == one.value for one in report.figures)
    for name in ("decode", "prompt", "overhead"):
        assert figures[f"factor of {name}"].value == getattr(report.result, name)
    assert figures["error"].value == pytest.approx(report.result.error)
    assert figures["error without the factors"].value == pytest.approx(report.result.error_without)
    path = tmp_path / "mine.toml"
    path.write_text(toml_of(gpu))
    assert load_gpu(str(path)).calibration == gpu.calibration
    asked = {"gpu": str(path), "max_model_len": "8192", "input_len": "1000", "output_len": "250", "concurrency": "16"}
    serving = Performance(Deployed(ask("llama-3.1-8b", asked))).serving
    assert serving is not None
    assert serving.tpot_s is not None
    assert serving.tpot_s.value == pytest.approx(0.012, rel=0.1)
    (said,) = [one for one in size(ask("llama-3.1-8b", asked)).assumptions if one.name == "calibration"]
    plain = Performance(Deployed(ask("llama-3.1-8b", asked | {"gpu": "h100-sxm"}))).serving
    assert plain is not None
    assert plain.tpot_s is not None
    assert "without it a decode step of" in said.why
    assert f"TPOT {1000 * plain.tpot_s.value:.2f} ms" in said.why


def test_another_engines_calibration_is_not_taken() -> None:
    gpu = replace(load_gpu("h100-sxm"), calibration=Calibration(engine="sglang", decode=3))
    question = ask("llama-3.1-8b", H100)
    other, plain = (Performance(Deployed(one)).estimate for one in (question._replace(gpu=gpu), question))
    assert other == plain
