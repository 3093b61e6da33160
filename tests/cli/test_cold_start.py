"""Cold start is a feature: the commands of a terminal query load nothing heavy. How long they take is a benchmark."""

import subprocess
import sys

import pytest

HEAVY = ["torch", "triton", "huggingface_hub", "numpy", "vl_convert", "plotext", "rich", "safetensors"]
LINES = [
    "size llama-3-8b --gpu h100-sxm",
    "size llama-3-8b --gpu h100-sxm --json --explain",
    "size deepseek-v3 --gpu h200-sxm -tp 8 --isl 2k --osl 256",
    "step llama-3-8b --gpu h100-sxm --batch 64 --context 2048",
    "kv llama-3-8b gpt-oss-120b",
    "models llama-3-8b",
    "gpus h100-sxm",
    "--help",
    "size --help",
]


@pytest.mark.parametrize("line", LINES)
def test_nothing_heavy_is_imported(line: str) -> None:
    heavy = HEAVY if "--help" in line else [*HEAVY, "pydantic", "typer"]
    script = (
        "import sys\n"
        "from kvcalc.cli.app import run\n"
        f"code = run({line.split()!r})\n"
        f"print([name for name in {heavy!r} if name in sys.modules], code, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.splitlines()[-1] == "[] 0"
