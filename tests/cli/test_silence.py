"""Nothing is dropped in silence: every flag changes a figure, or is listed as one that cannot, or is refused."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kvcalc.catalog.budgets import flag_fields
from kvcalc.cli.app import run
from kvcalc.cli.flags import Flag

BASE = {
    "size": "llama-3-8b --gpu h100-sxm --price 2.5",
    "step": "llama-3-8b --gpu h100-sxm --batch 8 --context 2048",
    "prefill": "llama-3-8b --gpu h100-sxm --isl 4096 --batch 8 --context 2048",
    "speculate": "llama-3-8b --gpu h100-sxm --draft-cost 0.1 --acceptance 0.7 --context 2048",
    "curve": "llama-3-8b --gpu h100-sxm --batch 8 --context 2048",
    "compare": "llama-3-8b --gpu h100-sxm",
    "kv": "llama-3-8b --context 2048",
    "simulate": "llama-3-8b --gpu h100-sxm --requests 20 --request-rate 300 --isl 256 --osl 16 --max-model-len 512 "
    "--num-gpu-blocks-override 60",  # crowded: what the scheduler is told matters
    "plan": "llama-3-8b --gpu l40s -q none --kv-cache-dtype auto --isl 1k --osl 100 --users 300",
}
VALUES = {
    "gpu": "l40s", "engine": "sglang", "engine_version": "0.8", "dtype": "fp16", "quantization": "fp8",
    "kv_cache_dtype": "fp8", "mamba_ssm_cache_dtype": "bf16", "max_model_len": "4096", "max_num_seqs": "64",
    "max_num_batched_tokens": "4096", "block_size": "64", "gpu_memory_utilization": "0.8", "kv_memory_bytes": "20GB",
    "overhead_bytes": "3GiB", "price_usd_per_hour": "3", "pricing": "spot", "context": "1024", "input_len": "1000",
    "output_len": "100", "concurrency": "16", "num_prompts": "50", "prefix_hit": "512", "tpot_s": "30ms",
    "ttft_s": "1s", "num_redundant_experts": "8", "max_lora_rank": "64", "draft_quantization": "fp8",
    "e2e_s": "3s", "think_s": "2s", "tool_s": "1s", "arrivals": "constant", "scheduling_policy": "priority",
    "urgent": "0.5", "accepting": "expected", "routing": "prefix-aware", "reservation": "max", "watermark": "0.3",
    "scheduler": "static", "percentile": "90", "step_time_s": "99ms", "ray": "local", "network_bandwidth_bytes_per_s":
    "20GB", "requests_per_day": "10000", "judge": "high", "objective": "gpus", "utilization": "0.5", "emit": "vllm",
    "api_price": "input=1,output=2", "max_usd_per_hour": "0.1", "gpus_available": "l40s=1", "limit_mm_per_prompt":
    "image=0", "acceptance": "0.7", "top": "1", "long_prefill_token_threshold": "64", "flash_attn": "on",
    "backend": "cuda",
}  # fmt: skip
USUAL = "2"
# Need a file or a text; tests of their own.
ELSEWHERE = {"serve", "price_file", "format", "output", "strict", "draft", "trace", "lengths_from", "calibrate_from",
             "requests_csv", "timeline"}  # fmt: skip
ECHOES = {"deployment", "command", "size", "simulate", "commands"}  # of a plan: what was asked, said again


def commands_flags() -> Iterator[tuple[str, Flag]]:
    for command in BASE:
        for flag in import_module(f"kvcalc.cli.{command}").command.flags:
            taken = any(name in BASE[command].split() for name in flag.names)
            if flag.field not in ELSEWHERE and flag.kind != "bool" and not taken:
                yield command, flag


def words(flag: Flag) -> list[str]:
    name = flag.names[0].split("/")[0]
    return [name] if flag.kind == "switch" else [name, VALUES.get(flag.field, USUAL)]


PLAIN: dict[str, Any] = {}  # what each command says without another flag, asked once


def figures(found: Any) -> Any:
    """A result without what it merely repeats."""
    if isinstance(found, dict):
        return {name: figures(value) for name, value in found.items() if name not in ECHOES}
    return [figures(one) for one in found] if isinstance(found, list) else found


def answer(capsys: pytest.CaptureFixture[str], argv: list[str]) -> Any:
    """The JSON of a command; None where it refuses."""
    code = run([*argv, "--json"])
    out = capsys.readouterr().out
    return None if code == 2 else json.loads(out)


@pytest.mark.parametrize("command, flag", list(commands_flags()), ids=lambda one: getattr(one, "field", one))
def test_a_flag_changes_a_figure_or_is_listed(capsys: pytest.CaptureFixture[str], command: str, flag: Flag) -> None:
    base = [command, *BASE[command].split()]
    if command not in PLAIN:
        PLAIN[command] = answer(capsys, base)
    plain, found = PLAIN[command], answer(capsys, [*base, *words(flag)])
    if found is None or figures(found["result"]) != figures(plain["result"]):
        return
    new = [one["name"] for one in found["assumptions"] if one not in plain["assumptions"]]
    assert new or found.get("warnings") != plain.get("warnings"), f"{command} {words(flag)} is dropped in silence"


def test_every_flag_of_a_budget_is_a_flag_of_a_command() -> None:
    """So the test above goes over the keys of a budget too: both become the same fields."""
    shown = {flag.field for _, flag in commands_flags()} | ELSEWHERE
    shown |= {flag.field for command in BASE for flag in import_module(f"kvcalc.cli.{command}").command.flags}
    assert set(flag_fields().values()) <= shown


@pytest.mark.parametrize("argv, named", [
    ("size llama-3-8b --gpu h100-sxm --isl 1000", "--input-len"),
    ("size llama-3-8b --gpu h100-sxm --concurrency 16", "--concurrency"),
    ("size llama-3-8b --gpu h100-sxm --isl 100 --osl 100 --prefix-hit 8", "--prefix-hit"),  # less than a block
    ("size llama-3-8b --gpu h100-sxm --max-lora-rank 64", "--max-lora-rank"),
    ("step llama-3-8b --gpu h100-sxm --batch 1 --price 2", "--price"),
    ("kv llama-3-8b -tp 2", "--tensor-parallel-size"),
])  # fmt: skip
def test_what_changes_nothing_is_named(capsys: pytest.CaptureFixture[str], argv: str, named: str) -> None:
    found = answer(capsys, argv.split())
    assert named in [one["name"] for one in found["assumptions"]]


@pytest.mark.parametrize("flag, value", [
    ("--max-model-len", "8192"), ("--gpu-memory-utilization", "0.92"), ("--max-num-seqs", "1024"),
])  # fmt: skip
def test_a_setting_that_says_the_default_is_no_noise(capsys: pytest.CaptureFixture[str], flag: str, value: str) -> None:
    """vLLM's own defaults for Llama-3-8B on an H100: what repeats them is honoured, and nothing to be told of."""
    found = answer(capsys, ["size", "llama-3-8b", "--gpu", "h100-sxm", flag, value])
    assert flag not in [one["name"] for one in found["assumptions"]]


LOCAL = "size llama-3-8b --gpu rtx4090 --engine llamacpp -q q4_k_m --context 2048"


@pytest.mark.parametrize("argv, why", [
    ("size llama-3-8b --gpu h100-sxm --block-size 16", "the same as without it"),  # vLLM's own block
    (f"{LOCAL} --ubatch-size 512 --isl 2000 --osl 200", "the same as without it"),  # llama.cpp's own -ub
    (f"{LOCAL} --backend cuda", "the same as without it"),
    (f"{LOCAL} --max-lora-rank 64", "changes no figure"),  # no adapters
])  # fmt: skip
def test_what_does_the_same_is_told_from_what_does_nothing(
    capsys: pytest.CaptureFixture[str], argv: str, why: str
) -> None:
    found = answer(capsys, argv.split())
    assert [one["why"].startswith(why) for one in found["assumptions"] if one["name"] in argv.split()] == [True]


def test_a_flag_that_only_changes_the_speed_of_one_alone_changes_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """From 32 rows on experts are copied to the GPU (ggml-cuda's offload_op), whose link is slower than both hosts."""
    argv = "size gpt-oss-120b --gpu rtx3090 --engine llamacpp --n-cpu-moe 30 --context 8192 --host-memory-bandwidth"
    found = [answer(capsys, [*argv.split(), host]) for host in ("80GB/s", "200GB/s")]
    assert found[0]["result"]["estimate"] == found[1]["result"]["estimate"]
    assert found[0]["result"]["by_context"] != found[1]["result"]["by_context"]
    assert "--host-memory-bandwidth" not in [one["name"] for one in found[1]["assumptions"]]


def test_slots_are_sequences_with_and_without_a_size_of_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "size",
        "llama-3-8b",
        "--gpu",
        "h100-sxm",
        "--engine",
        "llamacpp",
        "--isl",
        "2k",
        "--osl",
        "200",
        "-np",
        "8",
    ]
    found = answer(capsys, argv)
    assert found["result"]["serving"]["concurrency"] == 8
    assert "--parallel" not in [one["name"] for one in found["assumptions"]]


def test_a_layout_that_does_not_divide_is_refused_without_a_gpu_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, ["kv", "llama-3-8b", "-tp", "3"]) is None


def test_a_target_in_a_deployment_is_a_limit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "budget.toml"
    file.write_text(
        'schema = "kvcalc.budget/1"\n[[deployment]]\nmodel = "llama-3-8b"\ngpu = "h100-sxm"\ntpot = "1ms"\n'
        "[deployment.limit]\nfits = true\n"
    )
    assert run(["check", str(file)]) == 2
    assert "write max-tpot under [deployment.limit]" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["size", "prefill", "curve", "compare", "step"])
def test_a_prompt_has_no_more_cached_tokens_than_tokens(capsys: pytest.CaptureFixture[str], command: str) -> None:
    flags = "llama-3-8b --gpu h100-sxm --isl 1000 --osl 10 --prefix-hit 1001"
    assert run([command, *flags.split()]) == 2
    assert "--prefix-hit 1,001 is above the prompt of 1,000 tokens" in capsys.readouterr().err
