"""llama.cpp's cache and weights by stage, GPU and flag, worked out by hand."""

import pytest
from engines.models import GPT_OSS_20B, LLAMA_3_8B, QWEN3_5_27B, gqa, model
from engines.test_capacity_by_hand import held

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.counting.layout import pipeline_stages
from kvcalc.engines import budget_of_start, loaded_weight_bytes, logged_settings, rules, settled
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.llamacpp.asked import asked_bytes
from kvcalc.engines.logs.facts import LogCache, LogFacts
from kvcalc.engines.memory.budget import ByteRange
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.memory.start import Start
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

ROW = 2 * 8 * 128 * 2  # bytes of one token and layer: eight heads of 128, keys and values in f16
THREE = model((3, gqa(8, 128)))
STATE = 48 * 4 * (48 * 128 * 128 + 3 * 10_240)  # of Qwen3.5-27B, in float32


def llama(**flags: object) -> Deployment:
    return checked(Deployment, {"engine": "llamacpp", **flags})


def bytes_asked(spec: ModelSpec, **flags: object) -> int:
    deployment = llama(**flags)
    return asked_bytes(spec, deployment, pipeline_stages(spec, deployment.pipeline_parallel_size))


def test_the_stage_with_more_layers_decides() -> None:
    """Three layers over two GPUs: two on one of them."""
    assert bytes_asked(THREE, ctx_size=8192, pipeline_parallel_size=2) == 2 * 8192 * ROW
    found = held("llamacpp", THREE, pipeline_parallel_size=2)
    assert found.needed_bytes(8192) == 2 * 8192 * ROW


def test_gpus_that_share_a_model_share_its_rows() -> None:
    assert bytes_asked(THREE, ctx_size=8192, tensor_parallel_size=2) == 3 * 8192 * ROW // 2
    assert bytes_asked(model((1, gqa(8, 128))), ctx_size=256, tensor_parallel_size=3) == 349_526  # a third, rounded up
    found = held("llamacpp", QWEN3_5_27B, tensor_parallel_size=2)
    assert found.needed_bytes(65_536) == STATE // 2 + 16 * 65_536 * 2 * 4 * 256 * 2 // 2


@pytest.mark.parametrize(
    "spec, flags, each",
    [
        (LLAMA_3_8B, {"ctx_size": 8192}, 32 * ROW),
        # Twelve of 24 layers hold the four slots' windows of 128 and a micro-batch of 512: 1,024 cells for 8,192.
        (GPT_OSS_20B, {"ctx_size": 8192}, 12 * 2048 * 9 // 8),
        (LLAMA_3_8B, {"ctx_size": 8192, "parallel": 2}, 4096 * 32 * ROW),
        (LLAMA_3_8B, {"ctx_size": 8192, "parallel": 1}, 8192 * 32 * ROW),
    ],
)
def test_a_block_is_a_cell_or_a_slot(spec: ModelSpec, flags: dict[str, object], each: int) -> None:
    assert held("llamacpp", spec, **flags).block_bytes == each


def test_slots_in_words() -> None:
    def words(slots: int) -> str:
        return held("llamacpp", LLAMA_3_8B, ctx_size=8192, parallel=slots).rounding

    assert [words(slots).partition(",")[0] for slots in (1, 2)] == ["1 slot", "2 slots"]


def test_a_page_has_256_cells_of_a_layer() -> None:
    found = held("llamacpp", THREE)
    assert [(group.page_bytes, group.block_size) for group in found.pools[0].groups] == [(256 * 3 * ROW, 256)]


@pytest.mark.parametrize("offloaded, layers", [(33, 32), (20, 19), (1, 0)])
def test_layers_of_the_cpu_keep_their_cache_there(offloaded: int, layers: int) -> None:
    """-ngl counts the output as one of the layers."""
    found: Capacity = held("llamacpp", LLAMA_3_8B, n_gpu_layers=offloaded)
    assert found.needed_bytes(256) == layers * 256 * ROW


def test_adapters_are_beside_the_weights_and_a_share_is_of_what_is_usable() -> None:
    shape = ProfileShape(hidden=4096, vocab=128_256, layers=32)
    gpu = load_gpu("rtx4090")
    found = budget_of_start(Start(shape, gpu, llama(gpu_memory_utilization=0.5), 4 * GIB, lora=ByteRange.exactly(GIB)))
    assert found.weights == 5 * GIB
    assert found.requested == gpu.usable_memory_bytes // 2
    assert found.pool is not None
    assert found.pool.value == found.requested - found.weights - found.overhead.value


def test_what_slots_settle_is_not_typed() -> None:
    deployment = settled(LLAMA_3_8B, None, llama(ctx_size=16_384, parallel=4))
    assert (deployment.max_model_len, deployment.max_num_seqs) == (4096, 4)
    typed = rules("llamacpp").typed(deployment)
    assert (typed.max_model_len, typed.max_num_seqs) == (None, None)
    alone = settled(LLAMA_3_8B, None, llama(parallel=8))  # without -c its slots are still eight
    assert (alone.max_num_seqs, rules("llamacpp").typed(alone).max_num_seqs) == (8, None)
    asked = settled(LLAMA_3_8B, None, llama(ctx_size=16_384, parallel=4, max_model_len=1000, max_num_seqs=2))
    typed = rules("llamacpp").typed(asked)
    assert (typed.max_model_len, typed.max_num_seqs) == (1000, 2)


def test_layers_of_the_cpu_are_taken_from_every_gpu() -> None:
    layer = 2 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336)
    spec = load_model("llama-3-8b")
    whole, part = (loaded_weight_bytes(spec, llama(tensor_parallel_size=2, n_gpu_layers=layers)) for layers in (33, 20))
    assert whole - part == pytest.approx(13 * layer / 2, rel=1e-4)  # but for the norms


@pytest.mark.parametrize(
    "key, value, name", [("f16", "f16", "f16"), ("q8_0", "f16", "q8_0,f16"), ("q8_0", None, "q8_0")]
)
def test_types_of_keys_and_values_in_a_log(key: str, value: str | None, name: str) -> None:
    facts = LogFacts(caches=(LogCache(kind="state"), LogCache(kind="attention", k_type=key, v_type=value)))
    assert logged_settings("llamacpp", facts) == {"kv_cache_dtype": name}
