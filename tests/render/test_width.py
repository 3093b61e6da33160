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
    assert max(map(len, ran.out.splitlines())) <= 80
