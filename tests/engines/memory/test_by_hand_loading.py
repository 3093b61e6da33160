"""What is loaded and what a budget is worked out from, at the corners of each rule."""

import pytest
from engines.memory.test_by_hand_budget import LLAMA_8B
from engines.models import LLAMA_3_8B, compressed, gqa, model

from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.cache import cache_profile
from kvcalc.engines import budget_of_start, loaded_weight_bytes, rules
from kvcalc.engines.ideal.capacity import IdealPool
from kvcalc.engines.memory.lora import adapter_bytes
from kvcalc.engines.memory.shape import profile_shape
from kvcalc.engines.memory.shared import less_elsewhere
from kvcalc.engines.memory.start import Start
from kvcalc.engines.memory.weight_blocks import Divides, check_weight_blocks
from kvcalc.engines.pages.dtypes import engine_dtype
from kvcalc.engines.vllm.settings import vllm_settings
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment, Layout
from kvcalc.specs.formats import FP8_BLOCK
from kvcalc.specs.gpu import MemorySetting
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp, Tensor, Tower
from kvcalc.units import GIB

CARD = load_gpu("h100-sxm")


def flags(**given: object) -> Deployment:
    return checked(Deployment, given)


@pytest.mark.parametrize(
    "model_dtype, asked, found",
    [("fp32", "auto", "bf16"), ("fp32", "float32", "fp32"), ("fp16", "auto", "fp16"), ("fp16", "bfloat16", "bf16"),
     ("bf16", "float32", "fp32")],
)  # fmt: skip
def test_activations_have_16_bits_unless_asked(model_dtype: str, asked: str, found: str) -> None:
    """_get_and_verify_dtype: float32 checkpoints are lowered where nothing is said."""
    assert engine_dtype(replace(LLAMA_3_8B, dtype=model_dtype), flags(dtype=asked)) == found


def test_draft_layers_are_loaded_only_to_speculate() -> None:
    matrix = Tensor(name="mlp.up_proj.weight", shape=(1000, 600), category="mlp", matmul=True)
    spec = replace(LLAMA_3_8B, mtp=(LayerGroup(layers=(32,), tensors=(matrix,)),))
    plain, drafted = (loaded_weight_bytes(spec, flags(num_speculative_tokens=number)) for number in (0, 1))
    assert drafted - plain == 2 * 1000 * 600


TOWER = {"hidden": 1280, "width": 3420, "layers": 32, "largest_item_tokens": 16_384}


@pytest.mark.parametrize("kind, seen", [("vision", True), ("audio", False)])
def test_only_eyes_see(kind: str, seen: bool) -> None:
    tower = Tower(name="t", kind=kind, **TOWER)  # type: ignore[arg-type]
    found = profile_shape(replace(LLAMA_3_8B, towers=(tower,)), Deployment())
    assert (found.images, found.encoder is not None) == (seen, seen)
    assert (found.tower_layers, found.tower_hidden) == ((32, 1280) if seen else (0, 0))


def test_compressed_attention_keeps_the_widest_window_and_the_smallest_ratio() -> None:
    spec = model((1, replace(compressed(0), window=64)), (1, compressed(128)), (1, compressed(4)))
    found = profile_shape(spec, Deployment()).compressed
    assert found is not None
    assert (found.window, found.ratio, found.indexed) == (128, 4, True)


@pytest.mark.parametrize(
    "said, asked, packed",
    [(None, "auto", False), ("fp8", "auto", True), ("fp8", "bf16", False), (None, "fp8", True),
     ("bf16", "auto", False)],
)  # fmt: skip
def test_a_packed_cache_is_what_was_asked_or_what_the_checkpoint_says(
    said: str | None, asked: str, packed: bool
) -> None:
    spec = replace(LLAMA_3_8B, kv_cache_dtype=said)
    assert profile_shape(spec, flags(kv_cache_dtype=asked)).packed_cache is packed


def test_of_other_systems_the_one_that_gives_least_counts() -> None:
    settings = tuple(
        MemorySetting(system=name, usable_memory_bytes=gib * GIB, by_default=default)
        for name, gib, default in (("a", 95, True), ("b", 90, True), ("c", 50, False))
    )
    gpu = replace(load_gpu("gb10"), usable_memory_bytes=100 * GIB, memory_settings=settings)
    assert less_elsewhere(gpu) == 10 * GIB
    assert less_elsewhere(replace(gpu, unified_memory=False)) == 0


def experts(merged: bool) -> ModelSpec:
    """Eight experts of 256 by 128 in blocks of 128, gate and up in one matrix or apart."""
    tensor = Tensor(
        name="mlp.experts.gate_up_proj", shape=(512 if merged else 256, 128), copies=8, category="experts",
        split="columns", format=FP8_BLOCK,
    )  # fmt: skip
    mlp = MoeMlp(experts=8, top_k=2, expert_width=256)
    return replace(LLAMA_3_8B, groups=(LayerGroup(layers=(0,), mlp=mlp, tensors=(tensor,)),))


@pytest.mark.parametrize("merged", [False, True])
def test_gate_and_up_in_one_matrix_divide_as_two(merged: bool) -> None:
    """Of 256 over two GPUs 128 are left, over four 64: half a block."""
    check_weight_blocks(experts(merged), flags(tensor_parallel_size=2), Divides("vLLM"))
    with pytest.raises(KvcalcError, match="an expert over 4 GPUs: 64 on each is no multiple of the 128") as caught:
        check_weight_blocks(experts(merged), flags(tensor_parallel_size=4), Divides("vLLM"))
    assert "--enable-expert-parallel" in (caught.value.hint or "")


def test_a_matrix_that_does_not_divide_is_named() -> None:
    matrix = Tensor(
        name="mlp.up_proj.weight", shape=(576, 256), category="mlp", split="columns", format=FP8_BLOCK, matmul=True
    )
    spec = replace(LLAMA_3_8B, groups=(LayerGroup(layers=(0,), tensors=(matrix,)),))
    with pytest.raises(KvcalcError, match=r"divide mlp\.up_proj over 4 GPUs: 144 on each") as caught:
        check_weight_blocks(spec, flags(tensor_parallel_size=4), Divides("vLLM"))
    assert caught.value.hint == "use a smaller --tensor-parallel-size"


def test_adapters_of_unlike_tables_and_heads() -> None:
    """Over stages the larger of embedding and head counts; ranks beyond the KV heads hold a whole one."""
    tables = tuple(
        Tensor(name=name, shape=(rows, 600), category=name, split="vocab")  # type: ignore[arg-type]
        for name, rows in (("embedding", 5000), ("head", 7000))
    )
    keys = Tensor(name="k", shape=(1024, 600), category="attention", split="kv", matmul=True)
    group = LayerGroup(layers=(0,), mixers=(gqa(2, 128), gqa(8, 128)), tensors=(keys,))
    spec = replace(LLAMA_3_8B, groups=(group,), tensors=tables, dtype="bf16")
    row = 8 * 2
    both = adapter_bytes(spec, flags(max_loras=1, max_lora_rank=8, pipeline_parallel_size=2))
    assert both.value - both.low == 7600 * row
    each = [adapter_bytes(spec, flags(max_loras=1, max_lora_rank=8, tensor_parallel_size=tp)).low for tp in (4, 16)]
    assert each == [(256 + 600) * row, (128 + 600) * row]


def test_bytes_of_a_shared_sequence_are_rounded_up() -> None:
    pool = IdealPool(
        num_blocks=10**6, block_bytes=1, groups=(), profile=cache_profile(LLAMA_3_8B, "bf16", None, Layout()), spread=5
    )
    assert [pool.blocks(tokens) for tokens in (1, 5)] == [26_215, 131_072]  # 131,072 a token


def test_the_lessons_share_is_of_the_nameplate() -> None:
    deployment = flags(engine="ideal", gpu_memory_utilization=0.5)
    found = budget_of_start(Start(LLAMA_8B, CARD, deployment, 10 * GIB))
    assert found.requested == CARD.memory_bytes // 2
    assert found.pool is not None
    assert found.pool.value == CARD.memory_bytes // 2 - 10 * GIB


def test_stages_of_tensorrt_llm_talk_as_ranks_do() -> None:
    def outside(**layout: int) -> int:
        return budget_of_start(Start(LLAMA_8B, CARD, flags(engine="trtllm", **layout), GIB)).non_torch.value

    assert outside() == GIB
    assert outside(pipeline_parallel_size=2) == outside(tensor_parallel_size=2) == 2 * GIB
    assert outside(tensor_parallel_size=2, pipeline_parallel_size=2) == 2 * GIB


def test_tokens_of_a_step_of_llama_cpp() -> None:
    """n_batch of common/common.h."""
    assert rules("llamacpp").BATCHES_OF == 2048


def test_a_version_newer_than_any_that_was_read_is_said() -> None:
    def said(version: str) -> bool:
        found = vllm_settings(Start(LLAMA_8B, CARD, flags(engine_version=version), 0))
        return "rules" in {one.name for one in found.assumptions}

    assert [said(version) for version in ("0.33", "0.33.9", "0.34", "1.0")] == [False, False, True, True]
