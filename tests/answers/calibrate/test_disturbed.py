"""Runs that say little of a machine: above capacity, disturbed, too few to tell terms apart, or of something else."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.answers.calibrate.answer import calibrate_from
from kvcalc.answers.calibrate.fit import fit
from kvcalc.answers.calibrate.observed import left_out, observations
from kvcalc.answers.question import Question, ask
from kvcalc.catalog.bench.measurement import Served
from kvcalc.errors import KvcalcError
from kvcalc.specs.calibration import Calibration

H100 = {"gpu": "h100-sxm", "max_model_len": "8192"}
LOADS = [(200, 400, 1), (4000, 50, 8), (1000, 250, 16), (500, 500, 64), (2000, 100, 32)]


def measured(question: Question, factors: Calibration) -> list[Served]:
    """What a machine with these factors would have measured."""
    plain = [Served(i, o, n, 10 * n, 1.0, 1.0, f"{i}-{o}-{n}") for i, o, n in LOADS]
    said = iter([one.predict(factors) for one in observations(question, plain)])
    return [one._replace(tpot_s=next(said), ttft_s=next(said)) for one in plain]


def written(path: Path, ttft_ms: float, tpot_ms: float, clients: int) -> Path:
    """A result of `vllm bench serve`: 1,000 tokens in, 251 out, each client's requests one after the other."""
    whole_s = (ttft_ms + 250 * tpot_ms) / 1000
    bench: dict[str, Any] = {
        "completed": 10 * clients, "failed": 0, "duration": 10 * whole_s, "max_concurrency": clients,
        "total_input_tokens": 10_000 * clients, "total_output_tokens": 2_510 * clients, "request_rate": "inf",
        "mean_ttft_ms": ttft_ms, "mean_tpot_ms": tpot_ms, "model_id": "m",
    }  # fmt: skip
    path.write_text(json.dumps(bench))
    return path


def test_a_run_above_capacity_is_left_out_and_listed() -> None:
    question = ask("llama-3.1-8b", H100 | {"max_num_seqs": "64"})
    good = measured(question, Calibration(engine="vllm", decode=1.2))
    queued = Served(1000, 1000, 512, 5120, 79.0, 0.03, "queued")
    assert fit("vllm", observations(question, [*good, queued])) == fit("vllm", observations(question, good))
    (said,) = left_out(question, [*good, queued])
    assert said.value == "queued"
    assert "512 in flight, and 64 run at once" in said.why


def test_nothing_but_runs_above_capacity(tmp_path: Path) -> None:
    question = ask("llama-3.1-8b", H100 | {"max_num_seqs": "8"})
    with pytest.raises(KvcalcError, match="32 in flight, and 8 run at once"):
        calibrate_from(question, [written(tmp_path / "b.json", 9000, 12, 32)])


def test_a_disturbed_run_moves_little() -> None:
    question = ask("llama-3.1-8b", H100)
    good = measured(question, Calibration(engine="vllm", decode=1.2))
    first = good[0].ttft_s
    assert first is not None
    bad = good[0]._replace(ttft_s=50 * first)  # somebody compiled while the first came
    found = fit("vllm", observations(question, [bad, *good[1:]]))
    assert found.decode == pytest.approx(1.2, rel=0.05)
    assert found.prompt == pytest.approx(1, rel=0.1)


def test_runs_that_contradict_each_other_leave_the_machine_as_it_is() -> None:
    question = ask("llama-3.1-8b", H100)
    (tpot,) = observations(question, [Served(1000, 250, 16, 160, None, 1.0, "x")])
    usual = tpot.predict(Calibration(engine="vllm"))
    both = [Served(1000, 250, 16, 160, None, usual * factor, "x") for factor in (0.5, 2.0)]
    found = fit("vllm", observations(question, both))
    assert (found.decode, found.prompt, found.overhead) == (1, 1, 1)
    assert found.error == found.error_without


def test_what_one_run_cannot_tell_apart_stays_and_is_said(tmp_path: Path) -> None:
    report, gpu = calibrate_from(ask("llama-3.1-8b", H100), [written(tmp_path / "b.json", 120, 9, 16)])
    assert gpu.calibration is not None
    factors = {term: getattr(gpu.calibration, term) for term in ("decode", "prompt", "overhead")}
    kept = {f"factor of {term}" for term, factor in factors.items() if factor == 1}
    assert kept  # two numbers do not fix three factors
    assert {one.name for one in report.assumptions} >= kept
    assert report.result.error <= report.result.error_without


def test_factors_far_from_1_are_warned_of(tmp_path: Path) -> None:
    report, _ = calibrate_from(ask("llama-3.1-8b", H100), [written(tmp_path / "b.json", 300, 40, 16)])  # not an H100's
    assert any("far from 1" in one for one in report.warnings)
    near, _ = calibrate_from(ask("llama-3.1-8b", H100), [written(tmp_path / "n.json", 70, 8.5, 16)])
    assert not any("far from 1" in one for one in near.warnings)
