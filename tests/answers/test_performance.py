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
