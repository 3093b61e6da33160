"""Advice: each change is what the whole calculation gives for it."""

import pytest

from kvcalc.answers.advice import advice
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import ask
from kvcalc.answers.size.answer import size


def advised(model: str, **flags: object) -> dict[str, tuple[str, str]]:
    deployed = Deployed(ask(model, dict(flags)))
    return {one.change: (one.goal, one.effect) for one in advice(Performance(deployed))}


def test_an_fp8_cache_doubles_the_tokens() -> None:
    goal, effect = advised("llama-3-8b", gpu="h100-sxm")["--kv-cache-dtype fp8"]
    assert goal == "batch"
    assert effect.startswith("2.0× the tokens")


def test_what_is_advised_is_what_size_answers() -> None:
    """The advice's numbers are those of asking again with the change."""
    effect = advised("llama-3-8b", gpu="h100-sxm", max_model_len="8192")["--kv-cache-dtype fp8"][1]
    again = size(ask("llama-3-8b", {"gpu": "h100-sxm", "max_model_len": "8192", "kv_cache_dtype": "fp8"})).result
    assert f"{again.kv_cache_size_tokens:,} instead of" in effect
    assert f"{again.max_batch:,} sequences" in effect


def test_what_does_not_fit_is_made_to() -> None:
    found = advised("llama-3-70b", gpu="h100-sxm")
    assert found["--tensor-parallel-size 2"][1].startswith("then it fits")
    assert "--kv-cache-dtype fp8" not in found  # the weights alone are too large


def test_a_length_that_fits() -> None:
    found = advised("llama-3.1-8b", gpu="rtx4090")
    change = next(change for change in found if change.startswith("--max-model-len"))
    longest = int(change.split()[1])
    assert found[change][1] == f"max_model_len up to {longest:,} fits"
    assert size(ask("llama-3.1-8b", {"gpu": "rtx4090", "max_model_len": str(longest)})).result.fits
    assert not size(ask("llama-3.1-8b", {"gpu": "rtx4090", "max_model_len": str(longest + 32)})).result.fits


def test_a_price_gives_advice_on_cost() -> None:
    found = advised("llama-3-70b", gpu="h100-sxm", tensor_parallel_size="2", price_usd_per_hour="2.5")
    assert "per million output tokens instead of" in found["--tensor-parallel-size 4"][1]
    # Where more GPUs hold no more than is worth saying apart, they are advised for the cost alone.
    wide = advised("llama-3-8b", gpu="h100-sxm", engine="ideal", price_usd_per_hour="2.5")
    assert wide["--tensor-parallel-size 8"][0] == "cost"


@pytest.mark.parametrize("engine, change, times", [
    ("vllm", "--kv-cache-dtype fp8", "2.0"),
    ("sglang", "--kv-cache-dtype fp8", "2.0"),
    ("trtllm", "--kv-cache-dtype fp8", "2.0"),
    ("llamacpp", "--kv-cache-dtype q8_0", "1.9"),  # 34 bytes for 32 elements instead of 64
])  # fmt: skip
def test_every_engine_has_a_smaller_cache(engine: str, change: str, times: str) -> None:
    goal, effect = advised("llama-3-8b", gpu="h100-sxm", engine=engine)[change]
    assert (goal, effect.startswith(f"{times}× the tokens")) == ("batch", True)


def test_sglang_is_advised_to_keep_back_what_its_pages_find_enough() -> None:
    """DeepSeek-R1 in fp8 on 4 B200 is served in public runs; the default keeps 25.75 GiB back and leaves no cache."""
    asked: dict[str, object] = {"gpu": "b200-sxm", "engine": "sglang", "engine_version": "0.5.9"}
    asked |= {"tensor_parallel_size": "4", "max_model_len": "8295"}
    effect = advised("deepseek-r1", **asked)["--mem-fraction-static 0.94"][1]
    assert effect.startswith("then it fits")
    again = size(ask("deepseek-r1", {**asked, "gpu_memory_utilization": "0.94"})).result
    assert again.fits
    assert f"{again.kv_cache_size_tokens:,} tokens" in effect
    # a share that was given is not lowered, and one that keeps as little is not advised again
    full = advised("deepseek-r1", **asked, gpu_memory_utilization="0.95")
    assert not [change for change in full if change.startswith("--mem-fraction-static")]


def test_four_bits_are_advised_where_nothing_fits_and_what_they_need_is_said() -> None:
    effect = advised("qwen3-32b", gpu="h100-sxm")["--quantization awq"][1]
    assert effect.startswith("then it fits")
    assert effect.endswith("needs a checkpoint that is stored so")
    assert "--quantization awq" not in advised("llama-3-8b", gpu="h100-sxm")


def test_what_a_change_adds_is_said() -> None:
    """Llama 3 70B on one GPU of USD 2 an hour: a second one is USD 2 more."""
    effect = advised("llama-3-70b", gpu="h100-sxm", price_usd_per_hour="2")["--tensor-parallel-size 2"][1]
    assert effect.endswith("1 GPU more, $2.00 an hour more")


def test_what_has_no_room_in_llama_cpp_is_left_to_more_cards_or_the_cpu() -> None:
    """A 70B in Q4_K_M is 39 GiB: two cards of 24 GB hold it, or one and the CPU; where memory is shared, neither."""
    asked: dict[str, object] = {"gpu": "rtx4090", "engine": "llamacpp", "quantization": "q4_k_m"}
    found = advised("llama-3-70b", **asked)
    assert found["--pipeline-parallel-size 2"][0] == "fit"
    kept = next(int(change.split()[1]) for change in found if change.startswith("-ngl"))
    assert size(ask("llama-3-70b", asked | {"n_gpu_layers": str(kept)})).result.fits
    assert not size(ask("llama-3-70b", asked | {"n_gpu_layers": str(kept + 1)})).result.fits
    assert not any("-ngl" in change for change in advised("llama-3-70b", **asked | {"gpu": "apple-m4-pro-20c-24g"}))


def test_a_mixture_leaves_experts_to_the_cpu() -> None:
    asked: dict[str, object] = {"gpu": "rtx3090", "engine": "llamacpp"}
    left = next(int(one.split()[1]) for one in advised("gpt-oss-120b", **asked) if one.startswith("--n-cpu-moe"))
    assert size(ask("gpt-oss-120b", asked | {"n_cpu_moe": str(left)})).result.fits
    assert not size(ask("gpt-oss-120b", asked | {"n_cpu_moe": str(left - 1)})).result.fits
