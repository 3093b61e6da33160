"""What a reader sees, whole: words, order and layout. Whether the figures are right is tested elsewhere.

Pages of `--engine ideal` are kept with their figures, which follow from the literature; of the others the digits are
left out, so that a better constant does not change them. `pytest --snapshot-update` writes them anew: read the diff.
"""

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import Cli

IDEAL = [
    "size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --context 2048 --batch 64 --price 2.50",
    "size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --context 2048 --batch 64 --price 2.50 --explain",
    "size llama-3-70b --gpu h100-sxm --engine ideal --price 2.50",
    "kv llama-3-8b",
    "kv gpt-oss-20b --context 8k",
    "kv deepseek-v3 llama-3-8b qwen3-next-80b-a3b --context 8k --context 128K --batch 4",
    "kv llama-3-8b --kv-cache-dtype bf16 --kv-cache-dtype fp8 --format md",
    "step llama-3-8b --gpu h100-sxm --engine ideal --batch 64 --context 2048 --price 2.50",
    "curve llama-3-8b --gpu h100-sxm --engine ideal --context 2048 --batch 1 --batch 64 --price 2.50",
    "curve llama-3-8b --gpu h100-sxm --engine ideal --context 2048 --batch 1 --batch 64 --price 2.50 --format csv",
    "compare llama-3-8b --gpu h100-sxm --engine ideal --context 2048 -tp 1 -tp 2 -tp 3 --price 2.50",
    "models gpt-oss-20b",
]
ENGINES = [
    "size llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --concurrency 64 --price 2.50",
    "size gemma-3-27b --gpu h100-sxm --price 2.50",
    "size deepseek-v3 --gpu h200-sxm -dp 8 --enable-expert-parallel --context 8k --price 2.50",
    "size qwen3-next-80b-a3b --gpu h100-sxm -tp 4 --context 8k --price 2.50 --format md",
    "size llama-3-8b --gpu apple-m4-max",
    "size llama-3-8b --gpu h100-sxm --engine sglang --context 2k --price 2.50",
    "size llama-3-8b --gpu h100-sxm --engine trtllm --context 2k --price 2.50",
    "size llama-3-8b --gpu h100-sxm --engine llamacpp --context 2k --price 2.50",
    "kv gpt-oss-120b --engine vllm --context 8k",
    "step gpt-oss-20b --gpu h100-sxm -tp 2 --batch 16 --context 8k --price 2.50",
    "prefill llama-3-8b --gpu h100-sxm --isl 8k --osl 256 --tpot 30ms --price 2.50",
    "plan llama-3-8b --gpu l40s --isl 2k --osl 300 --users 50 --tpot 40ms --price 2 --api-price input=1,output=2",
    "speculate llama-3-8b --gpu h100-sxm --draft llama-3.2-1b --acceptance 0.8 --context 2k --price 2.50",
]


@pytest.mark.parametrize("line", IDEAL)
def test_pages_of_the_mathematics(cli: Cli, line: str, snapshot: SnapshotAssertion) -> None:
    ran = cli(line)
    assert ran.code == 0
    # Python 3.12 adds floats up more exactly: their last digits are its own.
    assert re.sub(r"\d\.\d{13,}", lambda found: f"{float(found[0]):.10f}", ran.out) == snapshot


@pytest.mark.parametrize("line", ENGINES)
def test_pages_of_engines(cli: Cli, line: str, snapshot: SnapshotAssertion) -> None:
    ran = cli(line)
    assert ran.code == 0
    assert layout(ran.out) == snapshot


def layout(text: str) -> str:
    """The text with every number as `0`, unwrapped, and every run of spaces as two: words, order, columns."""
    unwrapped = re.sub(r"\n {4,}", " ", text)
    plain = re.sub(r"[−-]?\d[\d,.]*\d|\d", "0", unwrapped).replace("0% to 0%", "0%")
    return re.sub(r" {2,}", "  ", re.sub(r"\b0 (?:µs|ms|s)\b", "0 s", plain))
