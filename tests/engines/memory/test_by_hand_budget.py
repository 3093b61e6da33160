"""Terms of each engine's budget worked out by hand from its rule; logs check their sum in the files beside this one."""

import pytest

from kvcalc.engines import budget_of_start
from kvcalc.engines.memory.budget import Activation, MemoryBudget
from kvcalc.engines.memory.links import interconnect
from kvcalc.engines.memory.shape import Compressed, Encoder, Latents, ProfileShape
from kvcalc.engines.memory.start import Observed, Start
from kvcalc.engines.sglang.memory import static_fraction
from kvcalc.engines.vllm.graphs import capture_sizes
from kvcalc.engines.vllm.network import communicating
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec, Link
from kvcalc.specs.versions import parse_version
from kvcalc.units import GIB

CARD = GpuSpec(
    name="card",
    title="card",
    vendor="NVIDIA",
    architecture="Hopper",
    compute_capability="9.0",
    memory_bytes=80 * GIB,
    usable_memory_bytes=80 * GIB,
    memory_bandwidth_bytes_per_s=3.35e12,
    peak_flops={"bf16": 989e12},
    links=(Link(name="nvlink", bandwidth_bytes_per_s=450e9),),
)
BLACKWELL = replace(CARD, architecture="Blackwell", compute_capability="10.0")
LLAMA_8B = ProfileShape(hidden=4096, vocab=128256, layers=32, dense_width=14336)
MOE = ProfileShape(hidden=2048, vocab=128000, layers=48, expert_width=768, shared_width=1024, top_k=8)


def budget(shape: ProfileShape, version: str, gpu: GpuSpec = CARD, **flags: object) -> MemoryBudget:
    more = {key: flags.pop(key) for key in ("observed", "max_model_len") if key in flags}
    given = {"engine_version": version, "max_num_batched_tokens": 8192, "max_num_seqs": 1024} | flags
    return budget_of_start(Start(shape, gpu, checked(Deployment, given), 10 * GIB, **more))  # type: ignore[arg-type]


def activation(shape: ProfileShape, version: str = "0.19.0", **flags: object) -> Activation:
    found = budget(shape, version, **flags).activation
    assert found is not None
    return found


@pytest.mark.parametrize(
    "largest, coarse, sizes",
    [(0, True, 0), (1, True, 1), (3, True, 2), (4, True, 3), (8, True, 4), (256, True, 35), (272, True, 36),
     (512, True, 51), (512, False, 67), (1024, True, 83)],
)  # fmt: skip
def test_sizes_that_are_captured(largest: int, coarse: bool, sizes: int) -> None:
    assert capture_sizes(largest, coarse) == sizes


@pytest.mark.parametrize(
    "shape, version, gpu, flags, sizes, each",
    [
        (LLAMA_8B, "0.19.0", CARD, {}, 51 + 51, 0.31 + 0.016 * 32),
        (LLAMA_8B, "0.19.0", CARD, {"max_num_seqs": 128}, 35 + 19, 0.31 + 0.016 * 32),
        (LLAMA_8B, "0.19.0", CARD, {"max_num_seqs": 64, "num_speculative_tokens": 1}, 35 + 11, 0.31 + 0.016 * 32),
        (MOE, "0.19.0", CARD, {}, 51 + 51, 0.31 + 0.016 * 48 + 0.40),
        (LLAMA_8B, "0.10.2", CARD, {}, 67, 0.31 + 0.016 * 32),
        (LLAMA_8B, "0.28", BLACKWELL, {}, 83 + 83, 0.31 + 0.016 * 32),
        (LLAMA_8B, "0.27", BLACKWELL, {}, 51 + 51, 0.31 + 0.016 * 32),
        (LLAMA_8B, "0.28", CARD, {}, 51 + 51, 0.31 + 0.016 * 32),
    ],
)
def test_graphs_by_sizes_and_layers(
    shape: ProfileShape, version: str, gpu: GpuSpec, flags: dict[str, object], sizes: int, each: float
) -> None:
    # Per 102 sizes, 0.31 GiB and 0.016 a layer, with experts 0.40 more.
    assert budget(shape, version, gpu, **flags).graphs.value == pytest.approx(sizes / 102 * each * GIB, abs=1)


@pytest.mark.parametrize(
    "version, charged", [("0.20", False), ("0.24", True), ("0.25", False), ("0.28", False), ("0.29", True)]
)
def test_graphs_are_charged_since_0_21_but_by_the_first_of_the_second_runner(version: str, charged: bool) -> None:
    """memory.toml: since 0.21 the estimate is taken out of the share; runner V2 left it out from 0.25 to 0.28."""
    found = budget(LLAMA_8B, version, CARD)
    assert found.graphs_charged is charged


@pytest.mark.parametrize("tp", [1, 4])
def test_the_profile_run_of_a_dense_model(tp: int) -> None:
    found = activation(LLAMA_8B, tensor_parallel_size=tp)
    # 3.6 copies of 1,024 rows of float32 logits, and a batch of hidden states with 8,192 bytes a token.
    assert found.sampler == int(3.6 * 1024 * 128256 * 4 + 8192 * (4096 * 2 + 8192))
    assert found.forward == 8192 * 2 * (3 * 14336 / tp + 3.25 * 4096) + 8192 * 8192
    assert found.peak.value == max(found.sampler, found.forward)


def test_stages_hand_over_and_only_the_last_samples() -> None:
    one, inner = (
        activation(LLAMA_8B, pipeline_parallel_size=2, observed=Observed(inner_stage=inner)) for inner in (False, True)
    )
    assert one.forward - activation(LLAMA_8B).forward == 2 * 8192 * 4096 * 2
    assert (inner.sampler, inner.forward) == (0, one.forward)
    assert activation(LLAMA_8B, observed=Observed(inner_stage=True)).sampler > 0  # one stage is the last


def test_the_profile_run_of_experts() -> None:
    # Unquantized on V1: a workspace of T · k rows is kept, of max(w, h) + max(2 w, h) elements.
    kept = 8192 * 8 * 2 * (2048 + 2048)
    found = activation(MOE)
    assert found.forward == int(8192 * 2 * (3 * 1024 + 3.25 * 2048) + 8192 * 8192 + kept)
    assert found.sampler == int(3.6 * 1024 * 128000 * 4 + 8192 * (2048 * 2 + 8192) + kept)
    # With other kernels three widths and a hidden state of each row live while they run, and are given back.
    quantized = activation(replace(MOE, quantized=True))
    assert quantized.forward == int(8192 * 2 * (3 * 1024 + 3.25 * 2048) + 8192 * 8192 + 8192 * 8 * 2 * (3 * 768 + 2048))
    assert quantized.sampler == found.sampler - kept
    halved = activation(replace(MOE, quantized=True), tensor_parallel_size=2)
    assert halved.forward == int(8192 * 2 * (3 * 512 + 3.25 * 2048) + 8192 * 8192 + 8192 * 8 * 2 * (3 * 384 + 2048))


def test_replicas_gather_their_tokens_in_chunks() -> None:
    def forward(version: str, dp: int) -> int:
        flags = {"data_parallel_size": dp, "enable_expert_parallel": True}
        return activation(replace(MOE, quantized=True), version, **flags).forward

    row, state = 8 * 2 * (3 * 768 + 2048), 2048 * 2
    plain = 8192 * 2 * (3 * 1024 + 3.25 * 2048) + 8192 * 8192
    assert forward("0.19.0", 4) == int(plain + 4 * 8192 * row + 3 * 8192 * state)
    assert forward("0.13", 4) == int(plain + 16384 * row + 8192 * state)  # VLLM_FUSED_MOE_CHUNK_SIZE


def test_a_tower_at_its_largest_input() -> None:
    tower = Encoder(hidden=1280, width=3420, gated=True, largest_item_tokens=16384)
    shape = replace(LLAMA_8B, images=True, encoder=tower)
    found = activation(shape)
    assert found.encoder == 16384 * 2 * (4 * (3 * 3420 + 5 * 1280) + 4096)  # four patches an embedding
    assert found.sampler - activation(LLAMA_8B).sampler == pytest.approx(0.13 * GIB, abs=1)
    plain = replace(shape, encoder=replace(tower, gated=False, largest_item_tokens=100))
    assert activation(plain).encoder == 8192 * 2 * (4 * (2 * 3420 + 5 * 1280) + 4096)  # a batch at least


@pytest.mark.parametrize("tp, value, high", [(2, 2.08, 2.30), (4, 2.17, 2.39), (8, 2.26, 2.48)])
def test_communicators_grow_by_doublings(tp: int, value: float, high: float) -> None:
    found = budget(LLAMA_8B, "0.19.0", tensor_parallel_size=tp).non_torch
    assert (found.value, found.high) == (pytest.approx(value * GIB, abs=1), pytest.approx(high * GIB, abs=1))


def test_replicas_talk_where_they_share_experts() -> None:
    layout = Deployment(tensor_parallel_size=2, data_parallel_size=4)
    assert (communicating(layout, moe=True), communicating(layout, moe=False)) == (8, 2)
    assert interconnect(CARD) == "nvlink"
    assert interconnect(replace(CARD, links=(Link(name="nvlink", bandwidth_bytes_per_s=250e9),))) == "nvlink"
    assert interconnect(replace(CARD, links=(Link(name="nvlink", bandwidth_bytes_per_s=56e9),))) == "pcie"
    assert interconnect(replace(CARD, links=(Link(name="nvlink", bandwidth_bytes_per_s=450e9, gpus=2),))) == "pcie"


def test_the_workspace_of_sparse_latents() -> None:
    # DeepSeek-V3.2: 128 heads over latents of 512 + 64.
    own = replace(MOE, latents=Latents(query_heads=128, rank=512, rope=64, indexed=True))

    def kept(shape: ProfileShape, length: int, version: str = "0.28", **flags: object) -> int:
        return budget(shape, version, max_model_len=length, **flags).workspace.value

    heads = 8192 * 128 * 576 * 2
    assert kept(own, 4096) == heads
    assert kept(own, 4096, tensor_parallel_size=8) == heads // 8
    assert kept(replace(own, packed_cache=True), 4096) == heads + 5 * 4096 * 576 * 2
    assert kept(replace(own, packed_cache=True), 4096, gpu=BLACKWELL) == heads  # no copy of a packed cache
    assert kept(own, 1_000_000) == 8 * 5 * 1_000_000 * 132
    assert kept(own, 1_000_000, "0.33") == max(heads, 8 * 2 * 1_000_000 * 132)
    assert kept(own, 262_144, "0.33") == max(heads, 8 * 5 * 262_144 * 132)
    assert kept(own, 4096, "0.11") == 0
    short = replace(MOE, compressed=Compressed(head_dim=512, window=128, ratio=4, indexed=True))
    assert kept(short, 100_001) == 4 * (25_001 + 128 + 8192) * 512 * 2
    assert kept(short, 1_000_000, max_num_batched_tokens=1024) == max(
        4 * (250_000 + 128 + 1024) * 512 * 2, 8 * 5 * 250_000 * 132
    )


def test_vllms_pool_is_what_is_left() -> None:
    found = budget(LLAMA_8B, "0.19.0", gpu_memory_utilization=0.9)
    assert found.pool is not None
    assert found.activation is not None
    assert found.requested == 72 * GIB
    left = 72 * GIB - 10 * GIB
    assert found.pool.value == left - found.non_torch.value - found.activation.peak.value
    assert found.pool.low == left - found.non_torch.high - found.activation.peak.high
    assert found.pool.high == left - found.non_torch.low - found.activation.peak.low


def fraction(version: str, gib: float = 80, shape: ProfileShape = LLAMA_8B, **flags: object) -> float:
    card = replace(CARD, usable_memory_bytes=int(gib * GIB))
    deployment = checked(Deployment, {"engine": "sglang", "engine_version": version} | flags)
    return static_fraction(shape, card, deployment, parse_version(version))


@pytest.mark.parametrize(
    "version, gib, flags, kept",
    [
        # MiB of 80 GiB: 512, 1.5 a prefill token, 2 a captured batch, 1,024 for eight GPUs.
        ("0.5.9", 80, {}, 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8),
        ("0.5.9", 80, {"tensor_parallel_size": 8}, 512 + 1.5 * 8192 + 2 * 512 + 1024),
        ("0.5.9", 80, {"max_num_batched_tokens": 1024}, 10240),  # never below a floor on a card above 60 GiB
        ("0.5.9", 48, {"max_num_batched_tokens": 1024}, 512 + 1.5 * 2048 + 2 * 32 + 1024 / 8),
        ("0.5.9", 80, {"enforce_eager": True}, 512 + 1.5 * 8192 + 1024 / 8),
        ("0.5.9", 80, {"num_speculative_tokens": 3}, 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8 + 2048),
        # Graphs of prompts: 58 sizes up to 8,192 (8 + 14 + 8 + 8 + 12 + 8), 8 MiB each.
        ("0.5.15", 80, {}, 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8 + 8 * 58),
        ("0.5.15", 80, {"num_speculative_tokens": 3}, 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8 + 8 * 58 + 4096),
        ("0.5.23", 80, {"num_speculative_tokens": 3}, 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8 + 8 * 58),
        # Before the formula by classes: 9.5 GiB and half a GiB a GPU below 90.
        ("0.4.9", 80, {}, 10 * 1024),
        ("0.4.9", 80, {"tensor_parallel_size": 4}, 11.5 * 1024),
        ("0.4.9", 180, {"tensor_parallel_size": 4}, 32 * 1024),
    ],
)
def test_what_sglang_keeps_back(version: str, gib: float, flags: dict[str, object], kept: float) -> None:
    assert fraction(version, gib, **flags) == round(1 - kept / (gib * 1024), 3)


def test_what_sglang_keeps_for_latents_images_and_many_gpus() -> None:
    plain = 512 + 1.5 * 8192 + 2 * 256 + 1024 / 8
    latent = replace(LLAMA_8B, latents=Latents(query_heads=128, rank=512, rope=64))
    assert fraction("0.5.15", shape=latent) == round(1 - (plain + 1536) / 81920, 3)
    text = round(1 - plain / 81920, 3)

    def seeing(layers: int, hidden: int) -> float:
        shape = replace(LLAMA_8B, images=True, tower_layers=layers, tower_hidden=hidden)
        return fraction("0.5.9", shape=shape) / text

    # 0.95 of ViT-L/14 (24 layers of 1,024); a tenth less for one twice as large, between 0.8 and 1.05.
    assert [seeing(*size) for size in ((24, 1024), (48, 1024), (24, 512), (96, 1024), (1, 64))] == pytest.approx(
        [0.95, 0.95 * 0.9, 0.95 * 1.05, 0.95 * 0.8, 0.95 * 1.05]
    )
    assert [fraction("0.4.3", tensor_parallel_size=tp) for tp in (1, 2, 4, 8, 16)] == [0.88, 0.87, 0.85, 0.81, 0.79]


def test_sglangs_pool_is_a_fraction_of_what_is_free() -> None:
    found = budget(LLAMA_8B, "0.5.9", engine="sglang", gpu_memory_utilization=0.8, max_model_len=1000)
    assert found.pool is not None
    free = 79.55  # 0.45 GiB are there before it starts, 0.30 to 0.80
    assert found.pool.value / GIB == pytest.approx(0.8 * free - 10)
    assert found.pool.high / GIB == pytest.approx(0.8 * free - 10 + 0.5 * 0.8 / 2)
    assert found.pool.low / GIB == pytest.approx(0.8 * free - 10 - 0.5 * 0.8 / 2 - 0.9)
    assert found.reserve.value / GIB == pytest.approx(0.2 * free)
    assert found.request_table == 4 * 1025 * 1000


@pytest.mark.parametrize("tp", [1, 2])
def test_tensorrt_llms_pool_is_a_fraction_of_what_its_profile_leaves(tp: int) -> None:
    found = budget(LLAMA_8B, "1.0", engine="trtllm", max_num_seqs=100, tensor_parallel_size=tp)
    forward, logits = 8192 * 2 * (3 * 14336 / tp + 3.25 * 4096), 100 * 128256 * 4
    more = (tp - 1) * GIB
    assert found.pool is not None
    assert found.pool.value == pytest.approx(0.9 * (70 * GIB - GIB - more - forward), abs=2)
    assert found.pool.low == pytest.approx(0.9 * (70 * GIB - 2.5 * GIB - more - 2 * (forward + logits)), abs=2)
    assert found.pool.high == pytest.approx(0.9 * (70 * GIB - 0.4 * GIB - more - forward / 2), abs=2)
    assert found.reserve.value == pytest.approx(0.1 * (70 * GIB - GIB - more - forward), abs=2)


def test_llama_cpps_buffer_is_a_batch_of_logits_and_states() -> None:
    found = budget(LLAMA_8B, "b7000", engine="llamacpp", ubatch_size=256)
    buffer = 256 * (128256 + 4096) * 4
    assert found.pool is not None
    assert found.pool.value == pytest.approx(70 * GIB - 0.40 * GIB - buffer, abs=2)
    assert found.pool.low == pytest.approx(70 * GIB - 0.80 * GIB - 4 * buffer, abs=2)
    assert found.pool.high == pytest.approx(70 * GIB - 0.20 * GIB - buffer / 2, abs=2)
