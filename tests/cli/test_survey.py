"""Seven sizing questions that 23 tools were asked; none answered all of them right. Answers from public configs."""

import pytest

from tests.cli.conftest import Cli


def test_question_1_llama_3_8b_on_an_h100(cli: Cli) -> None:
    line = "size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --context 2048 --batch 64 --json"
    result = cli(line).result
    assert result["kv_cache_bytes_per_token"] == 131072
    assert result["kv_cache_size_tokens"] == 381469
    assert result["max_batch"] == 186
    assert result["bound"]["step_time_s"] == pytest.approx(0.00992, abs=5e-6)
    assert result["bound"]["output_tokens_per_s"] == pytest.approx(6450, abs=0.5)


def test_question_2_llama_2_7b(cli: Cli) -> None:
    assert cli("kv llama-2-7b --json").result["models"][0]["bytes_per_token"] == 524288


def test_question_3_the_latent_is_whole_on_every_rank(cli: Cli) -> None:
    line = "size deepseek-v3 --gpu h200-sxm -tp 8 --engine ideal --kv-cache-dtype bf16 --json"
    assert cli("kv deepseek-v3 --json").result["models"][0]["bytes_per_token"] == 70272
    assert cli(line).result["kv_cache_bytes_per_token"] == 70272


def test_question_7_fp8_cache_over_four_gpus(cli: Cli) -> None:
    line = (
        "size llama-3-70b --gpu h100-sxm -tp 4 --kv-cache-dtype fp8 --engine ideal "
        "--batch 32 --context 8192 --price 2.50 --json"
    )
    result = cli(line).result
    assert result["kv_cache_bytes_per_token"] == 40960
    assert result["bound"]["step_time_s"] == pytest.approx(0.01374, abs=5e-6)
    assert result["bound"]["output_tokens_per_s"] == pytest.approx(2329, abs=1)
    assert result["bound"]["usd_per_million_output_tokens"] == pytest.approx(1.19, abs=0.005)
