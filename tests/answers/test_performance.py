"""Figures of a deployment that must agree among themselves."""

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import ask
from kvcalc.catalog.models import load_model


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b"])
def test_one_client_alone_is_one_client_alone(engine: str, equal: bool, model: str) -> None:
    flags = {"gpu": "h200-sxm", "engine": engine, "input_len": 4000, "output_len": 200, "concurrency": 1,
             "equal_lengths": equal}  # fmt: skip
    found = Performance(Deployed(ask(model, flags, load=load_model))).serving
    assert found is not None
    assert found.ttft_s == found.ttft_alone_s


def test_no_more_clients_are_busy_than_there_are_requests() -> None:
    """`--max-concurrency 16 --num-prompts 8` of a benchmark has eight requests in flight, and no ninth."""
    flags = {"gpu": "h100-sxm", "input_len": 1024, "output_len": 256, "num_prompts": 8}
    many, eight, open_ended = (
        Performance(Deployed(ask("llama-3-8b", flags | more, load=load_model)))
        for more in ({"concurrency": 16}, {"concurrency": 8}, {})
    )
    assert many.serving == eight.serving == open_ended.serving
    assert many.serving is not None
    assert (many.serving.concurrency, many.serving.running, many.serving.waiting) == (8, 8, 0)
    assert [one for one in many.warnings if "--num-prompts 8 is below --concurrency 16" in one]
    assert not [one for one in eight.warnings if "--num-prompts" in one]
