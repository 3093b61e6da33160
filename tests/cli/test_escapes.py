"""Nothing that others wrote reaches a terminal raw: arguments, budgets, specs, cards, logs."""

import json
from pathlib import Path

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.results.data import said_of
from tests.cli.conftest import Cli

EVIL = "a\x1b]0;title\x07b\x9b31mc\x7f\u202ed"
RAW = set("\x1b\x07\x9b\x7f\u202e")
FORMATS = ["table", "csv", "md", "json"]


def harmless(text: str) -> bool:
    return not RAW & set(text)


def quoted(text: str) -> str:
    """As a TOML string; JSON's escapes are TOML's."""
    return json.dumps(text)


LINES = [
    "size {} --gpu l4", "size llama-3-8b --gpu {}", "kv {} --engine {}", "gpus {}", "models {}", "{}",
    "size llama-3-8b --{}", "size llama-3-8b --format {}", "check {}", "diagnose {}",
    "size llama-3-8b --gpu l4 -o /no/{}", "size llama-3-8b --gpu l4 --isl {}",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_arguments(cli: Cli, line: str) -> None:
    ran = cli(line.format(EVIL, EVIL))
    assert ran.code == 2
    assert harmless(ran.err)


@pytest.mark.parametrize("form", FORMATS)
def test_a_spec(cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / "mine.toml"
    spec = said_of(load_gpu("l4"))
    kept = ("name", "architecture", "memory_bytes", "usable_memory_bytes", "memory_bandwidth_bytes_per_s")
    lines = [f"{name} = {json.dumps(spec[name])}" for name in kept]
    lines += [f"title = {quoted(EVIL)}", f"vendor = {quoted(EVIL)}", f"notes = [{quoted(EVIL)}]"]
    lines += ["[peak_flops]", "bf16 = 1e14", '[sources."*"]', f"what = {quoted(EVIL)}"]
    path.write_text("\n".join(lines))
    for line in (f"size llama-3-8b --gpu {path} --format {form}", f"gpus {path} --format {form}",
                 f"step llama-3-8b --gpu {path} --format {form} --explain"):  # fmt: skip
        ran = cli(line)
        assert ran.code == 0, ran.err
        assert harmless(ran.out + ran.err)


@pytest.mark.parametrize("form", [*FORMATS, "github"])
def test_a_budget(cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(
        f'schema = "kvcalc.budget/1"\n[[deployment]]\nname = {quoted(EVIL)}\nmodel = "llama-3-8b"\ngpu = "l4"\n'
        "[deployment.limit]\nmin-batch = 9999\n"
    )
    ran = cli(f"check {path} --format {form}")
    assert ran.code == 1, ran.err
    assert harmless(ran.out + ran.err)
    path.write_text(path.read_text().replace("min-batch", json.dumps(EVIL)))
    assert harmless(cli(f"check {path}").err)


@pytest.mark.parametrize("form", FORMATS)
def test_a_log(cli: Cli, tmp_path: Path, form: str) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(
        f"INFO 01-01 00:00:00 [core.py:1] Initializing a V1 LLM engine (v0.11.0) with config: model='{EVIL}', "
        "dtype=torch.bfloat16\n"
        f"INFO 01-01 00:00:01 [gpu_model_runner.py:1] Model loading took 14.98 GiB and 1 seconds {EVIL}\n"
        f"ValueError: No available memory for the cache blocks. Try increasing {EVIL}\n"
    )
    ran = cli(f"diagnose {path} --format {form}")
    assert harmless(ran.out + ran.err)


def test_csv_runs_no_formula(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(
        'schema = "kvcalc.budget/1"\n[[deployment]]\nname = "=1+2"\nmodel = "llama-3-8b"\ngpu = "l4"\n'
        "[deployment.limit]\nmin-batch = 1\n"
    )
    assert cli(f"check {path} --format csv").out.splitlines()[1].startswith("'=1+2,")
