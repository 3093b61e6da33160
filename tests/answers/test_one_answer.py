"""One question, one answer: every command gives a deployment and its clients the same figures, to the last digit."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.cli.app import run

MODELS = ("llama-3-8b", "qwen3-32b", "gpt-oss-120b", "qwen3-30b-a3b", "deepseek-v2-lite", "qwen3-next-80b-a3b",
          "gemma-3-27b", "granite-4.0-h-350m")  # fmt: skip
GPUS = ("h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "l40s", "a100-80g-sxm")
ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")
PRICE = "2.5"
slow = settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@st.composite
def questions(draw: st.DrawFn) -> dict[str, str]:
    """A deployment and its clients; no latency target, so that every command can answer."""
    asked = {
        "model": draw(st.sampled_from(MODELS)),
        "gpu": draw(st.sampled_from(GPUS)),
        "engine": draw(st.sampled_from(ENGINES)),
        "tensor-parallel-size": str(draw(st.sampled_from((1, 2, 4)))),
        "isl": str(draw(st.integers(1, 6000))),
        "osl": str(draw(st.integers(1, 1500))),
        "max-model-len": "8k",
        "price": PRICE,
    }
    clients = draw(st.sampled_from((None, 1, 2, 7, 64, 500, 5000)))
    if clients is not None:
        asked["concurrency"] = str(clients)
    if asked["engine"] == "llamacpp":  # one process, and types of its own
        return asked | ({"kv-cache-dtype": "q8_0"} if draw(st.booleans()) else {})
    if draw(st.booleans()):
        asked["data-parallel-size"] = "2"
    if draw(st.booleans()):
        asked["kv-cache-dtype"] = "fp8"
    return asked


def words(asked: dict[str, str], *left_out: str) -> list[str]:
    flags = [(name, value) for name, value in asked.items() if name not in ("model", *left_out)]
    return [asked["model"], *(word for name, value in flags for word in (f"--{name}", value))]


def also(command: str, asked: dict[str, str]) -> list[str]:
    """What a command has to be told beyond the question, and what changes none of the shared figures."""
    if command == "speculate":
        return ["--draft-cost", "0.1", "--acceptance", "0.7"]
    # A step of llama.cpp has 512 tokens: none is left for a prompt beside as many sequences as the pool holds.
    return ["--batch", "1"] if command == "prefill" and asked["engine"] == "llamacpp" else []


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> str | None:
    """What a command prints; None where it cannot answer (a model that does not divide, a link that is not there)."""
    code = run(argv)
    out = capsys.readouterr().out
    assert code in (0, 1, 2)
    return None if code == 2 else out


def result(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    out = answer(capsys, *argv, "--json")
    return None if out is None else json.loads(out)["result"]


def of_serving(serving: Any) -> dict[str, float | None]:
    tpot, usd = serving["tpot_s"], serving["usd_per_million_output_tokens"]
    return {
        "tpot": None if tpot is None else tpot["value"],
        "ttft": serving["ttft_s"]["value"],
        "speed": serving["output_tokens_per_s"]["value"],
        "usd": usd["value"],
    }


@slow
@given(questions())
def test_every_command_says_the_same(capsys: pytest.CaptureFixture[str], asked: dict[str, str]) -> None:
    size = result(capsys, "size", *words(asked))
    if size is None or size["serving"] is None:
        return
    want = of_serving(size["serving"])
    for command in ("step", "prefill", "speculate"):
        found = result(capsys, command, *words(asked), *also(command, asked))
        assert of_serving(found["serving"]) == want, command
    row = result(capsys, "compare", *words(asked))["rows"][0]
    assert of_serving(row["serving"]) == want
    clients = str(size["serving"]["concurrency"])
    point = result(capsys, "curve", *words(asked | {"concurrency": clients}))["points"][0]
    assert of_serving(point["serving"]) == want
    assert (point["tpot_s"], point["output_tokens_per_s"]) == (want["tpot"], want["speed"])
    assert point["usd_per_million_output_tokens"] == want["usd"]


@slow
@given(questions())
def test_a_gate_judges_what_size_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: dict[str, str]
) -> None:
    size = result(capsys, "size", *words(asked))
    if size is None or size["serving"] is None:
        return
    want = of_serving(size["serving"])
    file = tmp_path / "budget.toml"
    flags = "\n".join(f'{name} = "{value}"' for name, value in asked.items())
    file.write_text(
        f'schema = "kvcalc.budget/1"\n[[deployment]]\nname = "one"\n{flags}\n[deployment.limit]\njudge = "value"\n'
        'max-tpot = "1000s"\nmax-ttft = "100000s"\nmin-tokens-per-second = 0.001\nmax-usd-per-mtok = 1000000\n'
    )
    limits = result(capsys, "check", str(file))["deployments"][0]["limits"]
    have = {one["name"]: one["have"] for one in limits}
    assert have["max-tpot"] == want["tpot"]
    assert have["max-ttft"] == want["ttft"]
    assert have["min-tokens-per-second"] == want["speed"]
    assert have["max-usd-per-mtok"] == want["usd"]


@slow
@given(questions())
def test_tables_and_csv_hold_the_same_figures(capsys: pytest.CaptureFixture[str], asked: dict[str, str]) -> None:
    from kvcalc.units import format_count, format_seconds

    size = result(capsys, "size", *words(asked))
    if size is None or size["serving"] is None:
        return
    want = of_serving(size["serving"])
    clients = {"concurrency": str(size["serving"]["concurrency"])}
    for command, more in (("size", {}), ("compare", {}), ("curve", clients)):
        text = answer(capsys, command, *words(asked | more), "--format", "csv")
        row = next(csv.DictReader(io.StringIO(text or "")))
        assert float(row["serving.ttft_s.value"]) == want["ttft"], command
        assert float(row["serving.output_tokens_per_s.value"]) == want["speed"], command
    first, speed = format_seconds(want["ttft"] or 0), format_count(want["speed"] or 0)
    for form in ("table", "md"):
        for command in ("size", "step", "prefill", "speculate", "compare", "curve"):
            more = clients if command == "curve" else {}
            argv = [*words(asked | more), *also(command, asked), "--format", form]
            page = answer(capsys, command, *argv) or ""
            assert first in page, (command, form)
            assert (f"{speed} tokens/s" if command not in ("compare", "curve") else speed) in page, (command, form)


def test_the_ranking_takes_servings_figures(capsys: pytest.CaptureFixture[str]) -> None:
    load = ["--isl", "2000", "--osl", "256", "--concurrency", "64", "--price", PRICE]
    ranking = result(capsys, "size", "llama-3-8b", *load)["ranking"]
    for row in ranking[:5]:
        want = of_serving(result(capsys, "size", "llama-3-8b", "--gpu", row["gpu"], *load)["serving"])
        have = [row[name] for name in ("tpot_s", "ttft_s", "output_tokens_per_s", "usd_per_million_output_tokens")]
        assert have == [want["tpot"], want["ttft"], want["speed"], want["usd"]]


def test_the_ranking_settles_each_gpu_as_its_own_question_does(capsys: pytest.CaptureFixture[str]) -> None:
    """SGLang keeps the cache of sparse attention otherwise on Blackwell than on Hopper."""
    asked = ["deepseek-v3.2", "--engine", "sglang", "-tp", "8", "--price", PRICE]
    for row in result(capsys, "size", *asked)["ranking"][:4]:
        alone = result(capsys, "size", *asked, "--gpu", row["gpu"])
        assert row["kv_cache_size_tokens"] == alone["kv_cache_size_tokens"]
        assert row["max_batch"] == alone["max_batch"]


def test_without_lengths_the_figures_are_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--gpu", "h100-sxm", "--batch", "32", "--context", "2048", "--price", PRICE]
    size = result(capsys, "size", "llama-3-8b", *at)
    point = result(capsys, "curve", "llama-3-8b", *at)["points"][0]
    step = result(capsys, "step", "llama-3-8b", *at)
    assert size["serving"] is None
    assert point["tpot_s"] == size["estimate"]["step_time_s"]["value"] == step["estimate_s"]["value"]
    assert point["output_tokens_per_s"] == size["estimate"]["output_tokens_per_s"]["value"]
    assert size["bound"]["step_time_s"] == point["bound_s"] == step["bound_s"]
