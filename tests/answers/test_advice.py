"""Advice: each change is what the whole calculation gives for it."""

import pytest

from kvcalc.answers.advice import advice
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.answers.size import size


def advised(model: str, **flags: object) -> dict[str, tuple[str, str]]:
    deployed = Deployed(ask(model, dict(flags)))
    return {one.change: (one.goal, one.effect) for one in advice(deployed, deployed.operating_point())}


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
    goals = {goal for goal, _ in found.values()}
    assert "batch" in goals


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp", "ideal"])
def test_every_engine_is_answered(engine: str) -> None:
    assert isinstance(advised("llama-3-8b", gpu="h100-sxm", engine=engine), dict)
