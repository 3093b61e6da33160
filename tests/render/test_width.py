"""On a terminal of 80 columns no row of a table takes two lines, however much varies."""

import pytest

from kvcalc.render import table
from tests.cli.conftest import Cli, cli  # noqa: F401

LINES = [
    "compare smollm2-135m qwen3-30b-a3b --gpu h100-sxm --gpu mi300x -tp 1 -tp 2 --isl 1k --osl 100",
    "compare gpt-oss-120b --gpu rtx-pro-6000-ws --gpu b300-sxm -tp 4 -tp 8 --kv-cache-dtype bf16 --kv-cache-dtype fp8",
    "curve llama-3-8b --gpu rtx-pro-6000-ws --gpu h100-sxm -tp 1 -tp 2 --isl 2k --osl 256 --isl 4k --concurrency 16",
    "step llama-3-8b --gpu h100-sxm -dp 4",
    "step deepseek-v3 --gpu h200-sxm -tp 8 --batch 16 --context 8k",
    "kv llama-3-8b gemma-3-27b deepseek-v3 --context 128K --context 8k --context 1M",
    "prefill llama-3-70b --gpu rtx-pro-6000-ws -tp 4 --isl 100k --osl 1k",
    "simulate smollm2-135m --gpu l4 --isl 1k --osl 20 --request-rate 1 --request-rate 3 -tp 1 -tp 3 --requests 20",
    "plan llama-3-8b --gpu rtx-pro-6000-ws --isl 2k --osl 300 --users 500 --tpot 40ms",
    "plan deepseek-v3 --gpu b200-sxm --gpu rtx-pro-6000-ws --isl 3k --osl 500 --users 999 --tpot 80ms --acceptance 0.8",
    "gpus --machines",
    "kv llama-3-8b gemma-3-27b deepseek-v3 gpt-oss-120b qwen3-next-80b-a3b nemotron-3-nano-30b-a3b-nvfp4",
    "compare nemotron-3-nano-30b-a3b-nvfp4 gpt-oss-20b --gpu rtx-pro-6000-maxq --gpu jetson-agx-orin-64 -tp 1 -tp 2 "
    "--kv-cache-dtype bf16 --kv-cache-dtype fp8 --isl 10k --osl 1k",
    "size nemotron-3-nano-30b-a3b-nvfp4 --gpu rtx-pro-6000-maxq -tp 2 -dp 4 --isl 2k --osl 256 --concurrency 9999",
    "size deepseek-v3 --gpu gb200 -tp 8 -dp 4 -ep --isl 4k --osl 1k --draft mtp --num-speculative-tokens 3 --explain",
    "size llama-3-8b --gpu rtx3090+rtx3060 --engine llamacpp -q q8_0",
    "size smollm2-135m --isl 1k --osl 1k",
    "prefill nemotron-3-nano-30b-a3b-nvfp4 --gpu rtx-pro-6000-maxq -tp 2 -dp 4 --isl 100k --osl 1k --concurrency 40",
    "speculate llama-3-70b --gpu rtx-pro-6000-maxq -tp 4 --draft llama-3.2-1b --acceptance 0.8 -dp 2",
    "simulate nemotron-3-nano-30b-a3b-nvfp4 --gpu rtx-pro-6000-maxq -dp 4 --isl 1k --osl 9 --request-rate 9 "
    "--requests 9",
    "models nemotron-3-nano-30b-a3b-nvfp4",
    "gpus gb200",
    "gpus p5.48xlarge",
    "check docs/how-to/budget.toml",
]


@pytest.mark.parametrize("line", LINES)
def test_no_row_is_broken(cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str) -> None:  # noqa: F811
    parts, broken = table._parts, []

    def seen(widths: list[int]) -> list[list[int]]:
        found = parts(widths)
        broken.extend([widths] if len(found) > 1 else [])
        return found

    monkeypatch.setattr(table, "_parts", seen)
    ran = cli(line)
    assert ran.code == 0, ran.err
    assert not broken
    assert [one for one in ran.out.splitlines() if len(one) > 80 and "://" not in one] == []
