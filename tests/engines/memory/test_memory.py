"""Expected figures are from start-up logs of real servers; each case names its log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.engines import budget_of_start, memory_before_cache
from kvcalc.engines.memory.shape import Encoder, ProfileShape
from kvcalc.engines.memory.start import Observed, Start
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec, Link
from kvcalc.specs.model import Attention, DenseMlp, LayerGroup, ModelSpec, Tensor
from kvcalc.units import GIB

H100 = GpuSpec(
    name="h100-sxm",
    title="NVIDIA H100 SXM5 80GB",
    vendor="NVIDIA",
    architecture="Hopper",
    memory_bytes=80 * 10**9,
    usable_memory_bytes=int(79.19 * GIB),
    memory_bandwidth_bytes_per_s=3.35e12,
    peak_flops={"bf16": 989e12},
    links=(Link(name="nvlink", bandwidth_bytes_per_s=450e9),),
)
A100 = replace(H100, title="NVIDIA A100 SXM4 80GB", architecture="Ampere")
LLAMA_8B = ProfileShape(hidden=4096, vocab=128256, layers=32, dense_width=14336)
QWEN3_14B = ProfileShape(hidden=5120, vocab=151936, layers=40, dense_width=17408)
CODELLAMA_7B = ProfileShape(hidden=4096, vocab=32016, layers=32, dense_width=11008)
KIMI_VL = ProfileShape(
    hidden=2048, vocab=163840, layers=27, dense_width=11264, expert_width=1408, top_k=6, shared_width=2816, images=True
)
GPT_OSS = ProfileShape(hidden=2880, vocab=201088, layers=24, expert_width=2880, top_k=4, quantized=True)
QWEN25_VL_3B = ProfileShape(
    hidden=2048,
    vocab=151936,
    layers=36,
    dense_width=11008,
    images=True,
    encoder=Encoder(hidden=1280, width=3420, gated=True, largest_item_tokens=32768),
)


def vllm(version: str, **flags: object) -> Deployment:
    given: dict[str, object] = {"engine_version": version, "max_num_batched_tokens": 8192, "max_num_seqs": 1024}
    return checked(Deployment, given | flags)


# shape, deployment, runner, sampler, printed peak activation in GiB, what holds it
PEAKS = [
    (LLAMA_8B, vllm("0.19.0"), "V1", None, 1.89, "sampler"),
    (LLAMA_8B, vllm("0.6", max_num_batched_tokens=2048, max_num_seqs=256), "V0", None, 1.19, "sampler"),
    (LLAMA_8B, vllm("0.6.4", max_num_batched_tokens=29000, max_num_seqs=256), "V0", None, 2.99, "forward"),
    (QWEN3_14B, vllm("0.16.0"), "V1", None, 5.64, "sampler"),
    (QWEN3_14B, vllm("0.17.0"), "V1", None, 2.23, "sampler"),
    (CODELLAMA_7B, vllm("0.19.0"), "V1", None, 0.77, "forward"),
    (KIMI_VL, vllm("0.19.0"), "V1", None, 2.92, "sampler"),
    (KIMI_VL, vllm("0.19.0", tensor_parallel_size=2), "V1", None, 2.85, "sampler"),
    (GPT_OSS, vllm("0.19.0"), "V1", None, 2.87, "sampler"),
    (GPT_OSS, vllm("0.11"), "V1", "native", 7.38, "sampler"),
    (QWEN25_VL_3B, vllm("0.7", max_num_batched_tokens=32768, max_num_seqs=256), "V0", None, 4.06, "encoder"),
]


@pytest.mark.parametrize("shape, deployment, runner, sampler, printed, phase", PEAKS)
def test_peak_activation_of_logs(
    shape: ProfileShape, deployment: Deployment, runner: str, sampler: str | None, printed: float, phase: str
) -> None:
    observed = checked(Observed, {"runner": runner, "sampler": sampler})
    found = budget_of_start(Start(shape, H100, deployment, 10 * GIB, observed=observed)).activation
    assert found is not None
    assert found.phase == phase
    assert found.peak.value / GIB == pytest.approx(printed, abs=0.14)
    assert found.peak.low <= (printed + 0.01) * GIB
    assert found.peak.high >= (printed - 0.01) * GIB


def test_llama_on_an_h100_term_by_term() -> None:
    """Llama-3.1-8B, vLLM 0.19, utilization 0.95: printed weights 14.99, peak 1.89, non-torch 0.25, cache 58.11."""
    deployment = vllm("0.19.0", gpu_memory_utilization=0.95)
    found = budget_of_start(Start(LLAMA_8B, H100, deployment, int(14.99 * GIB)))
    assert found.requested / GIB == pytest.approx(75.23, abs=0.01)
    assert found.non_torch.value / GIB == pytest.approx(0.25, abs=0.01)
    assert not found.graphs_charged
    assert found.graphs.value / GIB == pytest.approx(0.87, abs=0.23)
    assert found.pool is not None
    assert found.pool.value / GIB == pytest.approx(58.11, abs=0.03)
    assert found.starts


def test_two_gpus_pay_for_nccl() -> None:
    """The same model on two: printed weights 7.51, cache 63.76; the logits do not shrink with tp."""
    deployment = vllm("0.19.0", gpu_memory_utilization=0.95, tensor_parallel_size=2)
    found = budget_of_start(Start(LLAMA_8B, H100, deployment, int(7.51 * GIB)))
    assert found.pool is not None
    assert found.pool.value / GIB == pytest.approx(63.76, abs=0.05)


def test_graphs_are_charged_since_0_21() -> None:
    older, newer = (budget_of_start(Start(LLAMA_8B, H100, vllm(v), 15 * GIB)) for v in ("0.19.1", "0.22.0"))
    assert (older.graphs_charged, newer.graphs_charged) == (False, True)
    assert budget_of_start(Start(LLAMA_8B, H100, vllm("0.22.0", enforce_eager=True), 15 * GIB)).graphs.value == 0


@pytest.mark.parametrize(
    "gpu, version, offline, tokens, sequences",
    [
        (H100, "0.19.0", False, 8192, 1024),  # H100 server log, vLLM 0.19
        (H100, "0.10.2", True, 16384, 1024),  # H100 offline log, vLLM 0.10.2
        (A100, "0.19.0", False, 2048, 256),  # "A100" in the name: EngineArgs, vLLM 0.19.1
        (A100, "0.8.5", False, 8192, 1024),  # no such exception yet: EngineArgs, vLLM 0.8.5
    ],
)
def test_default_batch_limits(gpu: GpuSpec, version: str, offline: bool, tokens: int, sequences: int) -> None:
    deployment = Deployment(engine_version=version, max_model_len=8192)
    found = budget_of_start(
        Start(LLAMA_8B, gpu, deployment, 15 * GIB, observed=Observed(offline=offline), max_model_len=8192)
    )
    assumed = {assumption.name: assumption.value for assumption in found.assumptions}
    assert (assumed["max_num_batched_tokens"], assumed["max_num_seqs"]) == (tokens, sequences)


@pytest.mark.parametrize("length, tokens", [(29000, 29000), (32768, 32768), (131072, 2048), (512, 2048)])
def test_v0_profiles_the_model_length(length: int, tokens: int) -> None:
    found = budget_of_start(Start(LLAMA_8B, A100, Deployment(engine_version="0.6.4"), 15 * GIB, max_model_len=length))
    assert {a.name: a.value for a in found.assumptions}["max_num_batched_tokens"] == tokens


def test_unknown_version_is_an_assumption_with_a_wide_range() -> None:
    known = budget_of_start(Start(LLAMA_8B, H100, vllm("0.33.0"), 15 * GIB))
    unknown = budget_of_start(
        Start(LLAMA_8B, H100, Deployment(max_num_batched_tokens=8192, max_num_seqs=1024), 15 * GIB)
    )
    assert known.activation is not None
    assert unknown.activation is not None
    assert unknown.activation.peak.high > known.activation.peak.high
    assert "engine_version" in {assumption.name for assumption in unknown.assumptions}


def test_memory_shared_with_the_host_is_a_wider_range() -> None:
    gb10 = replace(H100, title="NVIDIA GB10", unified_memory=True)
    alone, shared = (budget_of_start(Start(LLAMA_8B, gpu, vllm("0.26"), 15 * GIB)) for gpu in (H100, gb10))
    assert alone.pool is not None
    assert shared.pool is not None
    assert shared.pool.low < alone.pool.low
    assert shared.pool.value < alone.pool.value
    assert shared.initial_use.high > alone.initial_use.high  # the system is on the same card
    told = budget_of_start(Start(LLAMA_8B, gb10, vllm("0.26", kv_memory_bytes="20GiB"), 15 * GIB))
    assert told.pool is not None
    assert told.pool.value == 20 * GIB


def test_overrides() -> None:
    deployment = vllm("0.19", gpu_memory_utilization=0.9, overhead_bytes="3GiB")
    found = budget_of_start(Start(LLAMA_8B, H100, deployment, 15 * GIB))
    assert found.pool is not None
    assert found.pool.value == int(79.19 * GIB * 0.9) - 18 * GIB or found.pool.value == found.requested - 18 * GIB
    assert found.pool.low == found.pool.high
    offloaded = budget_of_start(Start(LLAMA_8B, H100, vllm("0.19", cpu_offload_bytes="4"), 15 * GIB))
    assert offloaded.weights == 11 * GIB


def test_weights_that_do_not_fit_do_not_start() -> None:
    """gpt-oss-120b at the defaults of an H100: 65.97 GiB of weights, and the log says -2.14 GiB for the cache."""
    shape = replace(GPT_OSS, layers=36)
    deployment = Deployment(engine_version="0.10.2", gpu_memory_utilization=0.9)
    found = budget_of_start(Start(shape, H100, deployment, int(65.97 * GIB), max_model_len=131072))
    assert found.pool is not None
    assert found.pool.value / GIB == pytest.approx(-2.14, abs=0.1)
    assert found.starts is False


def test_ideal_has_no_overhead() -> None:
    found = budget_of_start(Start(LLAMA_8B, H100, Deployment(engine="ideal"), 16 * 10**9))
    assert found.pool is not None
    assert found.pool.value == 64 * 10**9
    assert found.overhead.value == 0


def linear(name: str, outputs: int, inputs: int, split: str) -> Tensor:
    fields = {"name": name, "shape": (outputs, inputs), "category": "attention", "split": split, "matmul": True}
    return build(Tensor, fields)


def test_adapter_slots() -> None:
    """Two slots of rank 16 on one layer of Llama-3.1-8B's query and output projections, counted by hand."""
    group = LayerGroup(
        layers=(0,),
        mixers=(Attention(query_heads=32, kv_heads=8, head_dim=128, v_head_dim=128),),
        mlp=DenseMlp(width=14336),
        tensors=(linear("q", 4096, 4096, "columns"), linear("o", 4096, 4096, "rows"), linear("k", 1024, 4096, "kv")),
    )
    model = ModelSpec(name="one", family="llama", hidden=4096, vocab=128256, groups=(group,))
    found = memory_before_cache(model, H100, vllm("0.19", max_loras=2), 15 * GIB)
    elements = 2 * 16 * ((4096 + 4096) + (4096 + 4096) + (4096 + 1024))
    assert found.lora.value == 2 * elements
    halved = memory_before_cache(model, H100, vllm("0.19", max_loras=2, tensor_parallel_size=2), 15 * GIB)
    assert halved.lora.value == 2 * 2 * 16 * ((4096 + 2048) + (2048 + 4096) + (4096 + 512))


@given(
    hidden=st.integers(64, 20000),
    vocab=st.integers(1000, 300000),
    layers=st.integers(1, 200),
    width=st.integers(0, 100000),
    weights=st.integers(0, 200 * GIB),
    version=st.sampled_from(["0.6", "0.8.5", "0.10.2", "0.17", "0.19", "0.21", "0.26", "0.28", "0.33", None]),
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2]),
    engine=st.sampled_from(["ideal", "vllm", "sglang", "trtllm", "llamacpp"]),
)
def test_terms_always_close(
    hidden: int, vocab: int, layers: int, width: int, weights: int, version: str | None, tp: int, pp: int, engine: str
) -> None:
    shape = ProfileShape(hidden=hidden, vocab=vocab, layers=layers, dense_width=width)
    fields = {"engine": engine, "tensor_parallel_size": tp, "pipeline_parallel_size": pp}
    if engine == "vllm":
        fields["engine_version"] = version
    found = budget_of_start(Start(shape, H100, checked(Deployment, fields), weights, max_model_len=4096))
    assert found.pool is not None
    assert found.pool.low <= found.pool.value <= found.pool.high
    assert abs(found.requested - found.weights - found.overhead.value - found.pool.value) <= 2


@given(smaller=st.integers(1, 1024), larger=st.integers(1, 1024), version=st.sampled_from(["0.10.2", "0.19", "0.33"]))
def test_more_sequences_never_leave_more_pool(smaller: int, larger: int, version: str) -> None:
    smaller, larger = sorted((smaller, larger))
    pools = [
        budget_of_start(Start(LLAMA_8B, H100, vllm(version, max_num_seqs=n), 15 * GIB)).pool for n in (smaller, larger)
    ]
    assert pools[0] is not None
    assert pools[1] is not None
    assert pools[0].value >= pools[1].value


@pytest.mark.parametrize("capability, runner", [("7.5", "V0"), ("8.9", "V1"), ("gfx942", "V1"), (None, "V1")])
def test_cards_that_v1_did_not_take_yet(capability: str | None, runner: str) -> None:
    """vLLM 0.9.2 on a T4: 'Compute Capability < 8.0 is not supported by the V1 Engine. Falling back to V0.'"""
    gpu = replace(H100, compute_capability=capability)
    found = budget_of_start(Start(LLAMA_8B, gpu, Deployment(engine_version="0.9.2"), 0, max_model_len=4096))
    assert {a.name: a.value for a in found.assumptions}["runner"] == runner
