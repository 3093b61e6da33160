"""The commands as functions: the answers are the command line's, the keywords its flags."""

import shlex
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import kvcalc
from kvcalc.api import keywords
from kvcalc.api.arguments import field_of
from kvcalc.cli.app import COMMANDS
from kvcalc.errors import KvcalcError
from tests.cli.conftest import Cli, cli  # noqa: F401

ROOT = Path(__file__).parents[2]
NOT_IN_PYTHON = {"run", "calibrate", "report"}
# One question in both languages: the command line, and the call.
BOTH: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    (
        "size llama-3-8b --gpu h100-sxm -tp 2 --isl 2000 --osl 200 --concurrency 16 --price 2.5",
        ("llama-3-8b",),
        {"gpu": "h100-sxm", "tp": 2, "isl": 2000, "osl": 200, "concurrency": 16, "price": 2.5},
    ),
    ("size smollm2-135m --context 2k", ("smollm2-135m",), {"context": 2000}),
    (
        "size llama-3-8b --gpu h100-sxm --no-enable-prefix-caching --kv-memory 50GB --cpu-offload-gb 2",
        ("llama-3-8b",),
        {"gpu": "h100-sxm", "enable_prefix_caching": False, "kv_memory": 50 * 10**9, "cpu_offload_gb": 2},
    ),
    (
        "size --gpu l40s --serve 'vllm serve Qwen/Qwen3-8B --max-model-len 8192 --api-key x' qwen3-8b",
        ("qwen3-8b",),
        {"gpu": "l40s", "serve": "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --api-key x"},
    ),
    (
        "kv llama-3-8b gemma-3-27b --context 2048 --context 8K --kv-cache-dtype fp8",
        (["llama-3-8b", "gemma-3-27b"],),
        {"context": [2048, 8192], "kv_cache_dtype": "fp8"},
    ),
    (
        "step llama-3-8b --gpu h100-sxm --batch 8 --context 2048",
        ("llama-3-8b",),
        {"gpu": "h100-sxm", "batch": 8, "context": 2048},
    ),
    (
        "compare llama-3-8b --gpu l4 --gpu l40s --context 2048 --context 4096",
        ("llama-3-8b",),
        {"gpu": ["l4", "l40s"], "context": (2048, 4096)},
    ),
    (
        "curve llama-3-8b --gpu h100-sxm --batch 1 --batch 8 --context 2048 --tpot 30ms",
        ("llama-3-8b",),
        {"gpu": "h100-sxm", "batch": [1, 8], "context": 2048, "tpot": 0.03},
    ),
    (
        "prefill llama-3-8b --gpu h100-sxm --isl 4096 --chunk 512 --batch 4 --context 1024",
        ("llama-3-8b",),
        {"gpu": "h100-sxm", "isl": 4096, "chunk": 512, "batch": 4, "context": 1024},
    ),
    (
        "speculate llama-3-8b --gpu l40s --draft llama-3.2-1b --acceptance 0.8",
        ("llama-3-8b",),
        {"gpu": "l40s", "draft": "llama-3.2-1b", "acceptance": 0.8},
    ),
    (
        "simulate llama-3-8b --gpu l40s --isl 100-300 --osl 20 --request-rate 4 --requests 30 --ttft 1s",
        ("llama-3-8b",),
        {"gpu": "l40s", "isl": "100-300", "osl": 20, "request_rate": 4, "requests": 30, "ttft": 1},
    ),
    (
        "plan qwen3-8b --gpu l4 -tp 1 --isl 1k --osl 200 --request-rate 0.5 --ttft 5s --top 2",
        ("qwen3-8b",),
        {"gpu": "l4", "tp": 1, "isl": 1000, "osl": 200, "request_rate": 0.5, "ttft": 5, "top": 2},
    ),
    ("gpus --machines", (), {"machines": True}),
    ("models qwen3-8b --kv-cache-dtype fp8", ("qwen3-8b",), {"kv_cache_dtype": "fp8"}),
    ("gpus --match 'amd desktop'", (), {"match": "amd desktop"}),
    ("gpus h100-sxm", ("h100-sxm",), {}),
]


def _numbers(value: Any) -> Any:
    """What was typed is text on a command line and may be a number in Python."""
    if isinstance(value, dict):
        return {name: _numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return str(value)


@pytest.mark.parametrize("line, args, flags", BOTH, ids=[" ".join(line.split()[:3]) for line, _, _ in BOTH])
def test_the_answer_is_the_command_lines(cli: Cli, line: str, args: Any, flags: Any) -> None:  # noqa: F811
    report = getattr(kvcalc, shlex.split(line)[0])(*args, **flags)
    found, want = report.to_dict(), cli("", *shlex.split(line), "--json").json
    assert found["result"] == want["result"] or line.startswith("compare")  # whose rows echo what was typed
    assert _numbers(found["result"]) == _numbers(want["result"])
    assert found["sources"] == want["sources"]
    assert found.keys() == want.keys()


def test_json_is_printed_as_by_the_command_line(cli: Cli) -> None:  # noqa: F811
    report = kvcalc.step("llama-3-8b", gpu="h100-sxm", batch=8, context=2048, explain=True)
    line = "step llama-3-8b --gpu h100-sxm --batch 8 --context 2048 --json"
    assert report.to_json() == cli(line).out
    assert report.to_json(explain=True) == cli(line + " --explain").out


def test_every_command_is_a_function() -> None:
    assert set(COMMANDS) - NOT_IN_PYTHON <= set(kvcalc.__all__)
    assert not NOT_IN_PYTHON & set(kvcalc.__all__)


CLASSES = {
    "size": keywords.Size, "kv": keywords.Kv, "step": keywords.Step, "compare": keywords.Compare,
    "curve": keywords.Curve,
    "simulate": keywords.Simulate, "speculate": keywords.Speculate, "prefill": keywords.Prefill,
    "plan": keywords.Plan, "models": keywords.Model, "diagnose": keywords.Diagnose,
}  # fmt: skip
# Of files and exit codes: Python has its own.
OF_THE_LINE = {"format", "json", "output", "fail_if_unfit", "requests_csv", "timeline", "new_card", "source"}


@pytest.mark.parametrize("command", CLASSES)
def test_keywords_are_the_flags(command: str) -> None:
    """Every spelling of every flag, for the same field; and nothing else."""
    flags = import_module(f"kvcalc.cli.{command}").command.flags
    want = {
        name.lstrip("-").replace("-", "_"): flag.field
        for flag in flags
        if flag.field not in OF_THE_LINE
        for names in flag.names
        for name in names.split("/")
        if not name.startswith("--no-")
    }
    found = {name: field_of(name) for name in get_type_hints(CLASSES[command])}
    if command != "diagnose":
        want.pop("gpu", None)  # stands in the functions themselves
    assert found == want


def test_one_field_by_two_names() -> None:
    with pytest.raises(KvcalcError, match="tp is given twice, by two names"):
        kvcalc.size("llama-3-8b", gpu="l4", tensor_parallel_size=2, tp=2)


@pytest.mark.parametrize("flags, message", [
    ({"max_model_len": 0}, "max_model_len: 0 is below 1"),
    ({"kv_memory": "50"}, "kv_memory"),
    ({"mem_fraction_static": 0.8}, "mem_fraction_static is SGLang's, not vLLM's"),
    ({"batchsize": 3}, "unknown argument 'batchsize'"),
    ({"isl": "8.5K"}, "isl: "),
    ({"tensor_parallel_size": 1.5}, "tensor_parallel_size: "),
    ({"tp": 1.5}, "tp: "),
])  # fmt: skip
def test_mistakes_are_said_of_arguments(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(KvcalcError) as raised:
        kvcalc.size("llama-3-8b", gpu="h100-sxm", **flags)
    assert message in raised.value.message
    assert "--" not in raised.value.message + raised.value.hint.replace("kvcalc COMMAND --help", "")


@pytest.mark.parametrize("call, message", [
    (lambda: kvcalc.size("llama-3-8b", gpu=["l4", "l40s"]), "gpu: ['l4', 'l40s'] is not one name"),
    (lambda: kvcalc.step({"hidden_size": 1}, gpu="l4"), "model: {'hidden_size': 1} is not one name"),
    (lambda: kvcalc.load_gpu(None), "unknown GPU ''"),
    (lambda: kvcalc.gpus(4090), "gpu: 4090 is not one name"),
])  # fmt: skip
def test_what_is_no_name(call: Any, message: str) -> None:
    with pytest.raises(KvcalcError) as raised:
        call()
    assert raised.value.message == message


def test_paths_are_names(tmp_path: Path) -> None:
    """Whatever the command line takes as a file's path, Python takes as a Path."""
    gpu, prices = tmp_path / "mine.toml", tmp_path / "prices.toml"
    gpu.write_text((ROOT / "gpu_specs" / "l4.toml").read_text().replace('name = "l4"', 'name = "mine"'))
    prices.write_text("[usd_per_gpu_hour]\nmine = 0.5\n")
    assert kvcalc.load_gpu(gpu).name == "mine"
    found = kvcalc.compare("llama-3.2-1b", gpu=[gpu, "l4"], engine="ideal", context=2048, kv_memory="9GB")
    assert {row["gpu"] for row in found.result.rows} == {str(gpu), "l4"}
    assert kvcalc.size("llama-3.2-1b", gpu=gpu, price_file=prices).result.usd_per_hour == 0.5


def test_mistakes_in_names() -> None:
    with pytest.raises(KvcalcError) as raised:
        kvcalc.load_gpu("h10")
    assert "`kvcalc.gpus()`" in raised.value.hint


BUDGET = """schema = "kvcalc.budget/1"
[[deployment]]
name = "chat"
model = "llama-3-8b"
gpu = "h100-sxm"
max-model-len = "8K"
limit.fits = true
"""


def test_budgets_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(BUDGET)
    assert kvcalc.check(path).result.passed
    assert kvcalc.check(kvcalc.read_budget(str(path))) == kvcalc.check(str(path))
    path.write_text(BUDGET.replace("limit.fits", "limit.min-batch = 9999 #"))
    assert not kvcalc.check(path).result.passed


def test_a_log_by_its_path_or_lines(tmp_path: Path) -> None:
    lines = ["INFO 01-01 00:00:00 [gpu_worker.py:298] Available KV cache memory: 17.25 GiB\n"]
    path = tmp_path / "vllm.log"
    path.write_text("".join(lines))
    assert kvcalc.diagnose(path).result == kvcalc.diagnose(lines).result
