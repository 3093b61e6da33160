"""Caches, parameters, layouts and what stays on the host: figures worked out from configs."""

import pytest
from engines.models import DEEPSEEK_V4_FLASH, QWEN3_NEXT, gqa, model

from kvcalc.catalog.models import load_model
from kvcalc.counting.cache import CacheGroup, CacheProfile, cache_profile, element_bytes, mixer_cache, state_bytes
from kvcalc.counting.layout import leaves_node, local_tensor, pipeline_stages
from kvcalc.counting.params import active_parameters, total_parameters
from kvcalc.counting.placement import HostPart, host_part, host_weight_bytes, placed_operators
from kvcalc.counting.work import Step
from kvcalc.specs.deployment import Deployment, Layout
from kvcalc.specs.model import Recurrent

LAYER = 2 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096)  # bytes of one of Llama-3-8B, bf16
TABLE = 2 * 128_256 * 4096


def test_an_index_is_read_whole_and_the_rest_to_its_limit() -> None:
    sparse = CacheGroup("latent", 1, bytes_per_token=1000, index_bytes_per_token=200, read_limit=2048)
    assert sparse.stored(5000) == 5000 * 1000
    assert sparse.read(5000) == 5000 * 200 + 2048 * 800
    assert sparse.read(1000) == 1000 * 1000
    window = CacheGroup("sliding", 1, bytes_per_token=10, window=128, fixed_bytes=7)
    assert (window.stored(500), window.read(500), window.read(100)) == (1287, 1287, 1007)
    both = CacheProfile(groups=(sparse, window))
    assert (both.fixed_bytes, both.bytes_per_token, both.bytes_per_token_at_start) == (7, 1000, 1010)
    assert [both.stored(context + 1) - both.stored(context) for context in (127, 128)] == [1010, 1000]
    assert (both.stored(5000), both.read(5000)) == (5_000_000 + 1287, 1_000_000 + 2048 * 800 + 1287)


def test_heads_with_scales_of_their_own_count_elements_alone() -> None:
    """vLLM's types with a scale for each token and head, which its pages add: 8, 8 and 4 bits an element."""
    names = ("fp8_per_token_head", "int8_per_token_head", "int4_per_token_head")
    assert [element_bytes(name) for name in names] == [1, 1, 0.5]
    assert [element_bytes(name) for name in ("f32", "f16", "bf16", "fp32")] == [4, 2, 2, 4]


def test_cache_types_with_their_scales() -> None:
    # GGML: blocks of 32 with one or two halves of 16 bits; the packed latents have 576 elements.
    sizes = {"q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18}
    assert {name: 32 * element_bytes(name) for name in sizes} == sizes
    assert 576 * element_bytes("fp8_ds_mla") == 512 + 4 * 4 + 64 * 2
    assert 576 * element_bytes("nvfp4_ds_mla") == 512 / 2 + 512 / 16 + 64
    assert 32 * element_bytes("mxfp8") == 33
    assert element_bytes("q8_0,q4_0") == (34 + 18) / 64
    assert element_bytes("int4") == 0.5


@pytest.mark.parametrize("tp, heads", [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_ranks_keep_at_least_one_head(tp: int, heads: int) -> None:
    layout = Layout(tensor_parallel_size=tp)
    found = cache_profile(load_model("llama-3-8b"), layout=layout)
    assert found.bytes_per_token == 32 * heads * 2 * 128 * 2


def test_compressed_history_is_a_vector_and_a_key_for_four_tokens() -> None:
    sliding, history = mixer_cache(DEEPSEEK_V4_FLASH.groups[1].mixers[0], DEEPSEEK_V4_FLASH, "bf16")
    assert (sliding.bytes_per_token, sliding.window) == (512 * 2, 128)
    assert history.bytes_per_token == (512 + 128) * 2 / 4
    assert history.index_bytes_per_token == 128 * 2 / 4
    assert history.read_limit == 512 * 4
    first = mixer_cache(DEEPSEEK_V4_FLASH.groups[0].mixers[0], DEEPSEEK_V4_FLASH, "bf16")
    assert [one.kind for one in first] == ["sliding"]


def test_states_keep_all_columns_but_one() -> None:
    mixer = QWEN3_NEXT.groups[0].mixers[0]
    assert isinstance(mixer, Recurrent)
    assert state_bytes(mixer, QWEN3_NEXT) == 32 * 128 * 128 * 4 + 3 * 8192 * 2
    assert state_bytes(mixer, QWEN3_NEXT, "bf16") == 32 * 128 * 128 * 2 + 3 * 8192 * 2
    halves = cache_profile(QWEN3_NEXT, layout=Layout(tensor_parallel_size=2))
    assert halves.fixed_bytes == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2) // 2


def test_a_stage_keeps_its_own_layers() -> None:
    spec = model((4, gqa(8, 128, window=128)), (2, gqa(8, 128)))
    found = cache_profile(spec, layers=(3, 4, 5))
    assert [(one.kind, one.layers, one.bytes_per_token) for one in found.groups] == [
        ("sliding", 1, 4096), ("full", 2, 8192),
    ]  # fmt: skip


def test_a_token_meets_the_chosen_experts() -> None:
    # Mixtral-8x7B: 46,702,792,704 parameters; six of eight experts of 32 layers rest.
    found = load_model("mixtral-8x7b")
    assert total_parameters(found) == 46_702_792_704
    assert active_parameters(found) == 46_702_792_704 - 32 * 6 * 3 * 4096 * 14336


def test_what_is_left_over_goes_to_the_stages_before_the_last() -> None:
    spec = load_model("llama-3-8b")
    assert [len(stage) for stage in pipeline_stages(spec, 3)] == [11, 11, 10]
    assert [len(stage) for stage in pipeline_stages(spec, 5)] == [6, 6, 7, 7, 6]
    assert sorted(pipeline_stages(spec, 3)[1]) == list(range(11, 22))


def test_redundant_experts_are_dealt_with_the_others() -> None:
    spec = load_model("deepseek-v3")
    group = next(one for one in spec.groups if any(t.category == "experts" for t in one.tensors))
    tensor = next(one for one in group.tensors if one.category == "experts")
    for redundant, each in ((0, 8), (1, 9), (32, 9), (33, 10)):  # of 256 over 32 ranks
        layout = Layout(
            tensor_parallel_size=8,
            data_parallel_size=4,
            enable_expert_parallel=True,
            num_redundant_experts=redundant,
        )
        assert local_tensor(tensor, group, layout)[0] == each


@pytest.mark.parametrize(
    "tp, pp, dp, words",
    [
        (8, 1, 1, None), (4, 2, 1, None), (3, 1, 1, "tensor"), (16, 1, 1, "tensor"), (8, 2, 1, "pipeline stages"),
        (4, 1, 2, None), (4, 1, 3, "expert"),
    ],
)  # fmt: skip
def test_what_leaves_a_node(tp: int, pp: int, dp: int, words: str | None) -> None:
    layout = Layout(
        tensor_parallel_size=tp, pipeline_parallel_size=pp, data_parallel_size=dp, enable_expert_parallel=dp > 1
    )
    found = leaves_node(layout, 8)
    assert found is None if words is None else words in (found or "")


def test_llama_cpps_layers_are_counted_from_the_last_and_the_output_is_one() -> None:
    spec = load_model("llama-3-8b")
    parts = {
        asked: host_part(spec, Deployment(engine="llamacpp", n_gpu_layers=asked)) for asked in (0, 1, 20, 32, 33, 99)
    }
    assert parts == {
        0: HostPart(32, 0, output=True), 1: HostPart(32), 20: HostPart(13), 32: HostPart(1), 33: None, 99: None,
    }  # fmt: skip
    assert host_weight_bytes(spec, HostPart(13)) == 13 * LAYER
    assert host_weight_bytes(spec, HostPart(32, output=True)) == 32 * LAYER + TABLE
    placed = placed_operators(spec, Layout(), Step(decode=1, context=10), "bf16", HostPart(13))
    down = {one.place: one.count for one in placed if one.name == "down"}
    assert down == {"host": 13, "device": 19}
    assert [one.place for one in placed if one.name == "head"] == ["device"]


def test_experts_of_the_first_layers_stay_and_their_attention_goes() -> None:
    spec = load_model("mixtral-8x7b")
    experts = 8 * 3 * 4096 * 14336 * 2
    assert host_weight_bytes(spec, HostPart(0, experts=10)) == 10 * experts
    both = host_weight_bytes(spec, HostPart(4, experts=10))
    assert both - host_weight_bytes(spec, HostPart(4)) == 6 * experts
    placed = placed_operators(spec, Layout(), Step(decode=1, context=10), "bf16", HostPart(4, experts=10))
    counts = {
        kind: {place: sum(one.count for one in placed if (one.name, one.place) == (kind, place)) for place in
               ("host", "device")}
        for kind in ("experts", "attention (full)")
    }  # fmt: skip
    assert counts == {"experts": {"host": 10, "device": 22}, "attention (full)": {"host": 4, "device": 28}}


@pytest.mark.parametrize("tp, heads", [(1, 8), (8, 1), (16, 1)])
def test_an_image_is_kept_once_a_sequence(tp: int, heads: int) -> None:
    # Llama-3.2-90B-Vision: 20 layers of keys and values of 6,404 patches, 80 of tokens.
    found = cache_profile(load_model("llama-3.2-90b-vision"), layout=Layout(tensor_parallel_size=tp))
    assert found.fixed_bytes == 20 * 2 * heads * 128 * 6404 * 2
    assert found.bytes_per_token == 80 * 2 * heads * 128 * 2
