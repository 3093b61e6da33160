"""Estimates against published measurements of whole models.

Batch-one decoding in bf16 rests on kernel measurements alone: no run of a model entered its constants. Of static
batches one constant (the prompts' factor) was fitted, to 148 runs of 22 models and GPUs.
"""

from collections.abc import Callable

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
from kvcalc.specs.deployment import Layout
from kvcalc.timing.estimate import busy_prompt_time
from kvcalc.timing.machine import Machine
from kvcalc.timing.passes import Pass
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import static_batch_time

Make = Callable[..., Machine]


@pytest.mark.parametrize(
    "model, tp, tokens_per_s",
    [  # gpt-fast's README, A100 80 GB at 330 W, bf16, prompt of 5 tokens, about 200 new ones
        ("llama-2-7b", 1, 104.9),
        ("llama-2-7b", 2, 168.84),
        ("llama-2-7b", 4, 254.02),
        ("llama-2-70b", 4, 38.01),
        ("llama-3-8b", 1, 93.89),
        ("llama-3-8b", 2, 149.1),
        ("llama-3-70b", 4, 37.45),
    ],
)
def test_gpt_fast(machine: Make, model: str, tp: int, tokens_per_s: float) -> None:
    on = machine("a100-80g-sxm", "ideal")
    on = on._replace(profile=on.profile._replace(step_s=0, sequence_s=0))  # a bare loop: no scheduler
    replica = Replica(load_model(model), Layout(tensor_parallel_size=tp), on)
    assert 1 / Pass(replica, Step(decode=1, context=105)).time_s == pytest.approx(tokens_per_s, rel=0.06)


def test_sglang_single_stream(machine: Make) -> None:
    # SGLang's page on speculative decoding: Llama-3-8B without it, one H100, 158.34 tokens/s.
    on = machine("h100-sxm", "sglang")
    replica = Replica(load_model("llama-3-8b"), Layout(), on)
    assert 1 / Pass(replica, Step(decode=1, context=250)).time_s == pytest.approx(158.34, rel=0.08)


@pytest.mark.parametrize(
    "batch, input_len, output_len, tokens_per_s",
    [  # TensorRT-LLM 0.9.0's performance page, Llama-2-7B in fp16 on one A100 80 GB: whole static batches
        (256, 128, 128, 5390.0),
        (32, 128, 2048, 1484.0),
        (32, 2048, 128, 533.0),
        (16, 2048, 2048, 603.0),
    ],
)
def test_static_batches(machine: Make, batch: int, input_len: int, output_len: int, tokens_per_s: float) -> None:
    on = machine("a100-80g-sxm", "trtllm", "0.9.0")
    replica = Replica(load_model("llama-2-7b"), Layout(), on)
    step = Pass(replica, Step(decode=batch, context=input_len + output_len / 2)).time_s
    prompts = Pass(replica, Step(prompts=batch, tokens=input_len))
    rate = batch * output_len / static_batch_time(step, busy_prompt_time(prompts.sums, on.profile), output_len)
    assert rate == pytest.approx(tokens_per_s, rel=0.1)
