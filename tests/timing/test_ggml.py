"""llama.cpp's kernels: the formulas, and what its own documents measured."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.timing.operators.ggml import Rates, beyond_one, launched, multiplied, pipelined, quants
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, alone_time

RATES = Rates(read_one=1e12, read_many=1e12, compute=1e14)


def deployed(gpu: str, model: str = "llama-3.1-8b", **flags: object) -> Deployed:
    return Deployed(ask(model, {"gpu": gpu, "engine": "llamacpp", "quantization": "q4_k_m", **flags}))


def decode(gpu: str, context: int = 64, batch: int = 1, **flags: object) -> float:
    found = Pass(deployed(gpu, **flags).replica, Step(decode=batch, context=context)).estimate
    assert found is not None
    return float(found.value)


def prompt(gpu: str, tokens: int = 512, **flags: object) -> float:
    return float(alone_time(deployed(gpu, **flags).replica, Requests(tokens, 1)).value)


def test_one_row_reads_and_many_compute() -> None:
    assert multiplied(8e9, 16e9, 1, RATES, tile=6) == 8e9 / 1e12
    assert multiplied(8e9, 16e9 * 512, 512, RATES, tile=0) == pytest.approx(8e9 / 1e12 + 16e9 * 512 / 1e14)


@given(st.floats(1, 5000), st.floats(1, 5000))
def test_more_rows_never_take_less(one: float, other: float) -> None:
    few, many = sorted((one, other))
    assert multiplied(1e9, few * 2e9, few, RATES, 6) <= multiplied(1e9, many * 2e9, many, RATES, 6) * (1 + 1e-9)
    assert 0 <= beyond_one(few) <= beyond_one(many) <= 1
    assert launched(20, few, 1e-6, 3e-6) <= launched(20, many, 1e-6, 3e-6)


@given(st.integers(1, 200), st.integers(1, 8), st.floats(0.01, 1))
def test_a_pipeline_takes_no_longer_than_one_device_and_no_less_than_its_share(
    ubatches: int, stages: int, busy: float
) -> None:
    assert max(1.0, ubatches / stages) <= pipelined(ubatches, stages, busy) <= ubatches


def test_classes_of_formats() -> None:
    assert [quants(name, 4.5) for name in ("q8_0", "q6_k", "iq4_xs", "mxfp4")] == ["legacy", "k", "k", "mx"]
    assert quants("bf16", 16) == quants("fp32", 32) == "plain"


def test_what_llama_benchs_readme_measured() -> None:
    # llama.cpp, tools/llama-bench/README.md: RTX 4080, qwen2 7B Q4_K - Medium, build 5163: pp512 7,100 to 7,340 and
    # tg128 118.9 to 120.6 tokens/s. A report that no constant saw; prompts err by 28 %.
    found = deployed("rtx4080", model="qwen2.5-7b", engine_version="b5163")
    step = Pass(found.replica, Step(decode=1, context=64)).estimate
    assert step is not None
    assert step.low < 1 / 119.9 < step.high
    assert 0.7 < alone_time(found.replica, Requests(512, 1)).value / (512 / 7220) < 1.35


def test_builds_since_the_int8_kernels_are_faster_at_prompts() -> None:
    # ggml-org/llama.cpp pull request 7676: tensor cores for int8, up to twice as fast.
    assert 1.2 < prompt("rtx4090", engine_version="2024-05") / prompt("rtx4090", engine_version="b6918") < 2.5


def test_without_flash_attention_a_deep_cache_is_read_slower() -> None:
    with_it, without = (decode("rx7900xt", 16384, flash_attn=flash, max_model_len=32768) for flash in ("on", "off"))
    assert without > 1.5 * with_it


def test_a_backend_and_an_ubatch_change_the_time() -> None:
    assert decode("rtx3090", backend="vulkan") != decode("rtx3090")
    assert prompt("rtx3090", 2048, ubatch_size=64) > 1.3 * prompt("rtx3090", 2048)


def test_layers_on_the_host_are_read_from_its_memory() -> None:
    # One layer of 218M parameters at 4.85 bits is 132 MB; 0.7 of 89.6 GB/s reads it in 2.1 ms. llama-bench's README has
    # 2.2 to 2.8 ms for a layer of 112 MB on an unnamed host.
    everything = decode("rtx4090")
    ten_away = decode("rtx4090", n_gpu_layers=23)
    assert 10 * 1.7e-3 < ten_away - everything < 10 * 2.9e-3
    assert decode("rtx4090", n_gpu_layers=33) == everything  # 32 layers and the output
    fast = decode("rtx4090", n_gpu_layers=23, host_memory_bandwidth="epyc-9004")
    assert everything < fast < ten_away


def test_a_model_that_is_wholly_on_the_card_has_its_backends_range() -> None:
    def high(**flags: object) -> float:
        found = Pass(deployed("rtx4090", **flags).replica, Step(decode=1, context=64)).estimate
        assert found is not None
        return float(found.high / found.value)

    assert high(n_gpu_layers=99) == high() < high(n_gpu_layers=20)


def test_the_host_multiplies_few_rows_and_lends_its_weights_to_many() -> None:
    alone, away = prompt("rtx4090"), prompt("rtx4090", n_gpu_layers=1)
    # 32 layers of 132 MB over PCIe 4.0 x16 (31.5 GB/s, 0.8 of it): 0.17 s.
    assert 0.1 < away - alone < 0.25


def test_a_layer_split_costs_a_hop_a_device() -> None:
    one, four = (decode("rtx3090", pipeline_parallel_size=stages) for stages in (1, 4))
    # XiongjieDai/GPU-Benchmarks-on-LLM-Inference: 8B Q4_K_M, one and four A6000: 0.29 ms a hop.
    assert 0.15e-3 < (four - one) / 3 < 1.1e-3


def test_what_the_flags_leave_on_the_host_is_not_on_the_card() -> None:
    whole, part = deployed("rtx4090"), deployed("rtx4090", n_gpu_layers=17)
    assert part.weight_bytes_per_gpu < 0.65 * whole.weight_bytes_per_gpu
    assert part.bytes_per_token(1000) == pytest.approx(whole.bytes_per_token(1000) / 2)
    moe = deployed("rtx3090", model="gpt-oss-120b", quantization=None, n_cpu_moe=36)
    assert moe.weight_bytes_per_gpu < 4e9  # 117B parameters, nearly all in experts


def test_settings_of_llama_cpp_are_refused_to_others() -> None:
    with pytest.raises(KvcalcError, match="--ubatch-size is llama"):
        ask("llama-3-8b", {"gpu": "h100-sxm", "ubatch_size": "64"})
    with pytest.raises(KvcalcError, match="--host-memory-bandwidth changes nothing"):
        ask("llama-3-8b", {"gpu": "h100-sxm", "engine": "llamacpp", "host_memory_bandwidth": "96GB"})


def test_a_prompt_on_an_old_card_without_half_precision() -> None:
    assert replace(deployed("p40").replica, budget=64).budget == 64
    assert prompt("p40") > prompt("rtx3090")


@pytest.mark.parametrize(
    "model, cards, layers, host, measured",
    [
        # gpt-oss-120b on a 14900K, 25.6 tokens/s; on a 5800X at most 17; Qwen3-30B on an i9-10900X, 36.7: reports.
        ("gpt-oss-120b", "rtx3090", 36, "ddr5-5600", 25.6),
        ("gpt-oss-120b", "rtx3090", 26, "ddr4-3200", 17.0),
        ("qwen3-30b-a3b", "rtx2080", 36, "102GB/s", 36.7),
    ],
)
def test_experts_left_to_the_cpu(model: str, cards: str, layers: int, host: str, measured: float) -> None:
    flags = {"n_cpu_moe": str(layers), "host_memory_bandwidth": host, "quantization": "q4_k_m"}
    assert 0.7 < decode(cards, 1000, model=model, **flags) * measured < 1.3
