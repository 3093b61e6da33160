"""The engines' own names for flags, where they do not collide with kvcalc's, which are vLLM's."""

import pytest

from tests.cli.conftest import Cli, assert_refused

SAME = [
    ("--tp 2", "-tp 2"),
    ("--tp-size 2 --dp-size 2", "-tp 2 -dp 2"),
    ("--context-length 4k", "--max-model-len 4k"),
    ("--kv-cache-memory-bytes 9663676416", "--kv-memory 9GiB"),
    ("--kv-cache-memory-bytes 9G", "--kv-memory 9GiB"),
    ("--enable-lora", "--max-loras 1"),
    ("--enable-lora --max-loras 4", "--max-loras 4"),
    ("--engine sglang --mem-fraction-static 0.8", "--engine sglang --gpu-memory-utilization 0.8"),
    ("--engine tensorrt-llm --free-gpu-memory-fraction 0.8", "--engine trtllm --gpu-memory-utilization 0.8"),
    ("--engine llama.cpp -q Q8_0 -ctk q8_0 -ctv q8_0", "--engine llamacpp -q Q8_0 --kv-cache-dtype q8_0"),
    ("--engine llama.cpp -q Q8_0 -ctk q8_0", "--engine llamacpp -q Q8_0 --kv-cache-dtype q8_0,f16"),
    ('-sc {"method":"ngram","num_speculative_tokens":3}', "--num-speculative-tokens 3"),
    ("--price $2.50", "--price 2.50"),
]


@pytest.mark.parametrize("own, ours", SAME)
def test_an_engines_own_name_means_the_same(cli: Cli, own: str, ours: str) -> None:
    one, two = (cli(f"size llama-3-8b --gpu h100-sxm --json {words}") for words in (own, ours))
    assert one.code == 0, one.err
    assert one.result == two.result
    assert one.json["inputs"] == two.json["inputs"]


REFUSED = [
    "--mem-fraction-static 0.8",  # a share of something else than vLLM's
    "--engine sglang --kv-cache-memory-bytes 9G",
    "-ctk q8_0",
    "--engine sglang --num-gpu-blocks-override 100",
    "--kv-cache-memory-bytes 9G --kv-memory 8GiB",
    "--limit-mm-per-prompt some",
]


@pytest.mark.parametrize("words", REFUSED)
def test_a_name_of_another_engine_or_given_twice_is_refused(cli: Cli, words: str) -> None:
    assert_refused(cli(f"size llama-3-8b --gpu h100-sxm {words}"))


def test_the_longest_that_fits(cli: Cli) -> None:
    """8 GiB hold 65,536 tokens of 128 KiB, less the block that vLLM keeps for itself."""
    line = "size llama-3.1-8b --gpu h100-sxm --kv-memory 8GiB --json --max-model-len"
    found = cli(line, "auto").json
    assert found["inputs"]["max_model_len"] == 65536 - 16
    assert found["result"]["kv_cache_max_concurrency"] >= 1
    longer = cli(line, str(65536 + 16)).result
    assert longer["fits"] is False


def test_blocks_that_are_told(cli: Cli) -> None:
    found = cli("size llama-3-8b --gpu h100-sxm --num-gpu-blocks-override 1000 --max-model-len 1024 --json").result
    assert found["kv_cache_size_tokens"] == pytest.approx(16_000, rel=0.002)


def test_towers_that_take_no_input_are_not_loaded(cli: Cli) -> None:
    """gemma-3-27b's vision tower and projector are stored beside 27,009,002,240 text parameters in bf16."""
    whole, text, limited = (
        cli(f"size gemma-3-27b --gpu h100-sxm --json {words}").json
        for words in ("", "--language-model-only", "--limit-mm-per-prompt image=0")
    )
    assert text["result"]["weight_bytes_per_gpu"] == limited["result"]["weight_bytes_per_gpu"]
    assert whole["result"]["weight_bytes_per_gpu"] - text["result"]["weight_bytes_per_gpu"] > 400 * 2 * 10**6
    assert "towers" in {one["name"] for one in text["assumptions"]}
    some = cli("size gemma-3-27b --gpu h100-sxm --json --limit-mm-per-prompt image=2").result
    assert some["weight_bytes_per_gpu"] == whole["result"]["weight_bytes_per_gpu"]


def test_an_own_name_beside_a_pasted_command(cli: Cli) -> None:
    ran = cli("size --gpu h100-sxm --json --mem-fraction-static 0.7 --serve", "sglang serve llama-3-8b")
    assert ran.json["inputs"]["gpu_memory_utilization"] == 0.7
