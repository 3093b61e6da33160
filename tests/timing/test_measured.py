"""Estimates against published measurements of whole models.

Batch-one decoding in bf16 rests on kernel measurements alone: no run of a model entered its constants. Of static
batches one constant (the prompts' factor) was fitted, to 148 runs of 22 models and GPUs.
"""

from collections.abc import Callable

import pytest
from times.shapes import shape

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


@pytest.mark.parametrize(
    "gpu, sequences, context, alone_us, beside_us",
    [  # a layer's attention in Llama-3.1-8B, vLLM, by CUDA events: alone, and beside a prompt of 1,024 or 16 tokens
        # (casys-kaist/LLMServingSim, profiler/perf/*/meta-llama/Llama-3.1-8B/bf16/tp1/attention.csv)
        ("rtx4090", 32, 1024, 181.4, 348.0),
        ("rtx4090", 64, 1024, 333.3, 705.8),
        ("rtx-pro-6000-se", 64, 1384, 257.6, 373.2),
        ("rtx-pro-6000-se", 128, 1384, 507.3, 836.2),
    ],
)
def test_decode_attention_beside_a_prompt(
    machine: Make, gpu: str, sequences: int, context: int, alone_us: float, beside_us: float
) -> None:
    """FlashAttention 2 packs the heads of a group only where each sequence has one row and no prompt is beside them."""
    replica = Replica(load_model("llama-3.1-8b"), Layout(), machine(gpu, "vllm", "0.19"))
    step = Step(decode=sequences, context=context)
    alone = attention_us(replica, step)
    beside = attention_us(replica, step._replace(prompts=1, tokens=16))
    assert alone == pytest.approx(alone_us, rel=0.15)
    assert beside == pytest.approx(beside_us, rel=0.2)
    assert attention_us(replica, step._replace(rows_each=4)) == pytest.approx(beside)  # drafts fill the same tiles


@pytest.mark.parametrize("gpu, engine", [("h100-sxm", "vllm"), ("rtx4090", "sglang"), ("rtx4090", "trtllm")])
def test_other_kernels_take_prompts_and_decode_apart(machine: Make, gpu: str, engine: str) -> None:
    replica = Replica(load_model("llama-3.1-8b"), Layout(), machine(gpu, engine))
    step = Step(decode=64, context=1024)
    assert attention_us(replica, step) == attention_us(replica, step._replace(prompts=1, tokens=16))


def attention_us(replica: Replica, step: Step) -> float:
    """Microseconds of one layer's attention of those who decode."""
    times = Pass(replica, step).operator_times
    one = next(one for one in times if one.operator.kind == "attention")
    return float(one.time_s / one.operator.count * 1e6)


QWEN3_235B = {"L": 94, "h": 4096, "heads": 64, "n_kv": 4, "d_h": 128, "inter": 12288, "moe_inter": 1536, "experts": 128,
              "topk": 8, "vocab": 151936, "params": 235.1e9}  # fmt: skip


@pytest.mark.parametrize(
    "tp, sequences, context, tpot_ms",
    [  # Qwen3-235B-A22B-FP8 on H200, vLLM 0.12.0: means of closed loops, whose prompts take a tenth of it
        # (ai-dynamo/aiconfigurator, systems/data/silicon_sample.csv: 2,000 or 4,000 tokens in, 2,000 out)
        (2, 16, 3000, 51.7),
        (2, 16, 5000, 53.2),
        (4, 16, 9000, 33.7),
    ],
)
def test_experts_in_whole_tiles(machine: Make, tp: int, sequences: int, context: int, tpot_ms: float) -> None:
    """DeepGEMM reads all experts and computes 128 rows of each, however few tokens there are."""
    model = shape(QWEN3_235B, "fp8_block")

    def step_ms(version: str, slices: int) -> float:
        replica = Replica(model, Layout(tensor_parallel_size=slices), machine("h200-sxm", "vllm", version), "bf16")
        return float(Pass(replica, Step(decode=sequences, context=context)).time_s * 1e3)

    assert step_ms("0.12.0", tp) == pytest.approx(tpot_ms, rel=0.15)
    assert step_ms("0.19.0", tp) < 0.6 * tpot_ms  # Triton again
    assert step_ms("0.12.0", 8) == pytest.approx(step_ms("0.11.0", 8))  # eight slices: Triton
