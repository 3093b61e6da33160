"""`calibrate` and `run` from the command line, with benchmarks small enough for a test. No time is asserted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from executor.models import CONFIG

from kvcalc.answers.explain import evaluate
from kvcalc.catalog.gpus import load_gpu
from kvcalc.cli.app import run
from kvcalc.executor import microbench, microbench_layer, points, timing
from kvcalc.executor import run as running
from kvcalc.executor.device import Device, open_device
from kvcalc.executor.store import load_fresh
from kvcalc.results.base import Figure
from kvcalc.results.calibrate import CalibrateResult
from kvcalc.results.envelope import schema_of
from kvcalc.specs.build import build

Cli = Callable[[str], tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same benchmarks on next to nothing."""
    monkeypatch.setattr(microbench, "READ_BYTES", {"cpu": 2**16})
    monkeypatch.setattr(microbench, "SQUARE", {"cpu": 32})
    monkeypatch.setattr(microbench, "MATRICES", {"cpu": ((32, 32), (64, 96), (128, 256))})
    monkeypatch.setattr(microbench, "HEAD", (64, 96))
    monkeypatch.setattr(Device, "rotated_bytes", 2**16)
    monkeypatch.setattr(microbench_layer, "CACHES", {"cpu": ((1, 32), (2, 64), (2, 128))})
    monkeypatch.setattr(microbench_layer, "SKELETONS", ((1, 256, 64, 50), (2, 256, 64, 100), (1, 512, 128, 200)))
    monkeypatch.setattr(microbench_layer, "SKELETON_ROWS", (1, 4))
    monkeypatch.setattr(timing, "WINDOW_S", 1e-4)
    monkeypatch.setattr(timing, "TRIES", 1)
    monkeypatch.setattr(points, "TRIES", 1)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture(autouse=True)
def _always_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does."""
    from kvcalc.executor import calibrate, quiet

    monkeypatch.setattr(quiet.Others, "share", lambda self: 0.0)
    monkeypatch.setattr(quiet, "GLANCE_S", 0.0)
    for module in (quiet, calibrate, points, running):
        monkeypatch.setattr(module, "moved", lambda *bandwidths: False)


def test_calibrate_writes_a_spec_that_other_commands_take(cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "here.toml"
    code, out, _ = cli(f"calibrate --device cpu --spec {spec} --json")
    assert code == 0
    envelope = json.loads(out)
    jsonschema.validate(envelope, schema_of("calibrate"))
    result = envelope["result"]
    assert result["spec_file"] == str(spec)
    assert set(result["peak_flops"]) == {"bf16", "fp16", "fp32"}
    assert [row["rows"] for row in result["linear_rows"]] == [1, 2, 4, 8, 16, 32, 64]
    assert result["linear"]["bandwidth_bytes_per_s"] == result["linear_rows"][0]["bandwidth_bytes_per_s"]
    assert result["attention_rows"][0]["group"] == 4
    assert all(spread >= 1 for spread in result["spread"].values())
    gpu = load_gpu(str(spec))
    assert gpu.memory_bandwidth_bytes_per_s == result["read_bandwidth_bytes_per_s"]
    assert gpu.peak_flops == result["peak_flops"]
    source = gpu.source_of("memory_bandwidth_bytes_per_s")
    assert source is not None
    assert source.date == result["date"][:10]
    assert f"torch {torch.__version__}" in str(source.note)
    assert gpu.kernels is not None
    for command in (
        "size smollm2-135m --context 2k",
        "step smollm2-135m --batch 2 --context 2k",
        "curve smollm2-135m --context 2k",
        "compare smollm2-135m --context 2k",
        "prefill smollm2-135m --input-len 1k --batch 2",
    ):
        assert cli(f"{command} --gpu {spec} --json")[0] == 0, command
    assert load_fresh(open_device("cpu")) == build(CalibrateResult, result)


def test_calibrate_prints_what_it_found(cli: Cli) -> None:
    code, out, _ = cli("calibrate --device cpu --dtype fp32 --group 1 --head-dim 64 --block-size 16")
    assert code == 0
    assert "1 × 64" in out
    assert "read bandwidth" in out
    assert max(len(line) for line in out.splitlines() if ".toml" not in line) <= 80


def test_run_compares_every_term_of_every_point(cli: Cli, config: Path) -> None:
    code, out, _ = cli(
        f"run {config} --device cpu --batch 1 --batch 3 --context 40 --context 130 --block-size 16 --json --explain"
    )
    assert code == 0
    envelope = json.loads(out)
    jsonschema.validate(envelope, schema_of("run"))
    result = envelope["result"]
    assert len(result["points"]) == 2 * 2 * 4
    for batch in (1, 3):
        for context in (40, 130):
            terms = {
                point["term"]: point
                for point in result["points"]
                if (point["batch"], point["context"]) == (batch, context)
            }
            step = terms.pop("step")
            assert set(terms) == {"weights", "kv", "overhead"}
            assert sum(one["estimate_s"]["value"] for one in terms.values()) == pytest.approx(
                step["estimate_s"]["value"]
            )
            assert step["ratio"] == pytest.approx(step["measured_s"] / step["estimate_s"]["value"])
            # 2 KV heads of 32 elements, keys and values, 3 layers, two bytes
            assert terms["kv"]["bytes"] == batch * context * 2 * 32 * 2 * 3 * 2
            assert not terms["kv"]["resolved"] or terms["kv"]["bandwidth_bytes_per_s"] == pytest.approx(
                terms["kv"]["bytes"] / terms["kv"]["measured_s"]
            )
            assert step["bound_s"] == step["ceiling_s"] > 0  # no data sheet of a CPU
    assert result["correct"]["passed"]
    assert result["correct"]["max_rel_error"] <= 5e-3
    memory = result["memory"]
    assert memory["measured_bytes"] == memory["predicted_bytes"]
    # embedding and head, 512 × 128; a layer's q, k, v, o, gate, up, down and two norms; the last norm
    layer = 128 * (128 + 64 + 64 + 128) + 3 * 128 * 320 + 2 * 128
    assert memory["measured_weight_bytes"] == 2 * (2 * 512 * 128 + 3 * layer + 128)
    # three sequences of nine pages of 16 tokens
    assert memory["measured_cache_bytes"] == 3 * 9 * 16 * 2 * 2 * 32 * 3 * 2
    known = []
    for figure in envelope["figures"]:
        assert evaluate(Figure(**figure)) == pytest.approx(figure["value"])
        known.append(figure["value"])
    assert len({figure["name"] for figure in envelope["figures"]}) == len(known)
    for point in result["points"]:
        shown = [point[name] for name in ("bound_s", "ceiling_s", "measured_s", "ratio", "drift") if point[name]]
        for wanted in [*shown, point["estimate_s"]["value"]]:
            assert any(one == pytest.approx(wanted, rel=1e-9) for one in known), (point["term"], wanted)
    assert {one["name"] for one in envelope["assumptions"]} >= {"data sheet", "weights"}


def test_run_prints_terms_shares_and_ratios(cli: Cli, config: Path) -> None:
    code, out, err = cli(f"run {config} --device cpu --layers 2 --batch 2 --context 100 --ragged --gpu h100-sxm")
    assert code == 0
    assert "2 of 3 layers" in out
    assert "Scaled to all 3 layers" in out
    assert "NVIDIA H100 SXM5 80GB" in out
    assert "of bound" in out
    assert "of read" in out
    assert "as predicted" in out
    assert err == "" or err.startswith("warning:")


def test_a_second_run_takes_the_kept_calibration_and_adds_what_it_lacks(cli: Cli, config: Path) -> None:
    cli("calibrate --device cpu")
    first = load_fresh(open_device("cpu"))
    assert first is not None
    code, out, _ = cli(f"run {config} --device cpu --batch 1 --context 64 --json")
    assert (code, json.loads(out)["result"]["calibrated"]) == (0, first.date)
    second = load_fresh(open_device("cpu"))
    assert second is not None
    assert second.linear_rows == first.linear_rows
    assert len(second.attention_rows) == 2  # of 4 × 128 and of this model's heads


def test_normalised_queries_have_their_own_glue(cli: Cli, config: Path) -> None:
    cli("calibrate --device cpu")
    config.write_text(json.dumps({**CONFIG, "model_type": "qwen3", "head_dim": 32}))
    assert cli(f"run {config} --device cpu --batch 1 --context 64")[0] == 0
    kept = load_fresh(open_device("cpu"))
    assert kept is not None
    assert [(row.cold, row.qk_norm) for row in kept.glue_rows] == [
        (False, False), (True, False), (False, True), (True, True)
    ]  # fmt: skip


def test_windows_hold_what_they_see_and_no_more(cli: Cli, config: Path) -> None:
    config.write_text(json.dumps({**CONFIG, "model_type": "mistral", "sliding_window": 40}))
    code, out, _ = cli(f"run {config} --device cpu --dtype fp32 --batch 2 --context 100 --block-size 16 --json")
    assert code == 0
    result = json.loads(out)["result"]
    assert result["correct"]["max_rel_error"] <= 1e-6
    memory = result["memory"]
    # tokens 60 to 99 lie in pages 3 to 6: four pages a sequence
    assert memory["predicted_cache_bytes"] == memory["measured_cache_bytes"] == 2 * 4 * 16 * 2 * 2 * 32 * 3 * 4
    kv = next(point for point in result["points"] if point["term"] == "kv")
    assert kv["bytes"] == 2 * 40 * 2 * 2 * 32 * 3 * 4


def test_tolerance_decides_the_exit_code(cli: Cli, config: Path) -> None:
    line = f"run {config} --device cpu --batch 1 --context 64"
    assert cli(f"{line} --tolerance 0.0000001%")[0] == 1
    assert cli(f"{line} --tolerance 1000000")[0] == 0


def test_prompts_are_continued_with_real_weights(cli: Cli, config: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    sizes = {key: value for key, value in CONFIG.items() if key not in ("model_type", "torch_dtype")}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, dtype="float32", eos_token_id=None)).eval()
    model.save_pretrained(config.parent)
    line = f"run {config.parent} --weights {config.parent} --device cpu --batch 1 --context 32"
    code, out, _ = cli(f"{line} --prompt 5,6,7 --prompt 9 --new-tokens 8 --json")
    assert code == 0
    found = json.loads(out)["result"]["generated"]
    for one in found:
        with torch.inference_mode():
            want = model.generate(torch.tensor([one["prompt"]]), max_new_tokens=8, do_sample=False, pad_token_id=0)
        assert one["tokens"] == want[0, len(one["prompt"]) :].tolist()


def refused(ran: tuple[int, str, str], what: str) -> None:
    code, out, err = ran
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], err
    assert what in lines[0]


@pytest.mark.parametrize(
    "flags, what",
    [
        ("--batch 0", "at least 1"),
        ("--context 0", "at least 1"),
        ("--context 8.5K", "--context"),
        ("--layers 4", "has 3"),
        ("--layers 0", "--layers 0"),
        ("--block-size 24", "--block-size"),
        ("--dtype int8", "--dtype"),
        ("--device tpu", "--device"),
        ("--device cuda:x", "--device"),
        ("--prompt 1,x", "--prompt"),
        ("--prompt 600", "beyond 511"),
        ("--tolerance much", "--tolerance"),
        ("--batch 1000000 --context 1M", "do not fit"),
        ("--weights /nowhere", "--weights: no *.safetensors in /nowhere"),
        ("--temperature -1", "--temperature"),
    ],
)
def test_bad_input_is_one_error_and_one_hint(cli: Cli, config: Path, flags: str, what: str) -> None:
    refused(cli(f"run {config} --device cpu {flags}"), what)


@pytest.mark.parametrize("flags", ["--dtype fp8", "--group 0", "--head-dim 7", "--block-size 24", "--patience 5"])
def test_bad_flags_of_calibrate(cli: Cli, flags: str) -> None:
    refused(cli(f"calibrate --device cpu {flags}"), flags.split()[0])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("line", ["calibrate --device cuda", "run smollm2-135m --device cuda:0"])
def test_no_gpu_is_said_at_once(cli: Cli, line: str) -> None:
    refused(cli(line), "--device cuda")


@pytest.mark.parametrize("line", ["calibrate", "run smollm2-135m"])
def test_without_torch_one_error_says_what_to_install(line: str) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['triton'] = None\n"
        "from kvcalc.cli.app import run\n"
        f"sys.exit(run({line.split()!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    refused((done.returncode, done.stdout, done.stderr), "PyTorch")
    assert "kvcalc[run]" in done.stderr


def test_a_model_that_does_not_run_is_refused_before_any_work(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("measured for nothing")

    monkeypatch.setattr(microbench, "Reading", never)
    refused(cli("run mixtral-8x7b --device cpu"), "Llama-shaped")
