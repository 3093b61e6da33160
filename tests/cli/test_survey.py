"""Seven sizing questions that 23 tools were asked; none answered all of them right. Answers from public configs."""

import pytest

from kvcalc.units import GIB
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


@pytest.mark.parametrize(
    "model, ideal, reserved_gib", [("gemma-3-27b", 11173625856, 14.23), ("gpt-oss-120b", 4836556800, 4.79)]
)
def test_questions_4_and_5_windows(cli: Cli, model: str, ideal: int, reserved_gib: float) -> None:
    """One sequence of 131,072 tokens; vLLM keeps room in the windows for the 8,192 tokens of one batch in flight."""
    line = f"kv {model} --engine vllm --engine-version 0.19 --max-num-batched-tokens 8192 --context 131072 --json"
    (point,) = cli(line).result["models"][0]["by_context"]
    assert point["bytes"] == ideal
    assert round(point["engine_bytes_per_gpu"] / GIB, 2) == reserved_gib


def test_question_5_weights_on_disk(cli: Cli) -> None:
    assert cli("models gpt-oss-120b --json").result["weight_bytes"] == 65248815744


def test_question_6_states(cli: Cli) -> None:
    found = cli("models qwen3-next-80b-a3b --json").result
    assert (found["parameters"], found["kv_bytes_per_token"]) == (79674391296, 24576)
    assert found["fixed_bytes_per_sequence"] == 77266944
    half = cli("size qwen3-next-80b-a3b --gpu h200-sxm -tp 1 --engine ideal --mamba-ssm-cache-dtype bf16 --json").result
    assert half["fixed_bytes_per_sequence"] == 39518208


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
