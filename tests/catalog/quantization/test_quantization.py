"""Schemes: which module each covers, and in what; names as the library that wrote them matches them.

Expected coverage is what the named libraries do (transformers 5.24, vLLM 0.33, compressed-tensors 0.15, ModelOpt's
exports); bytes per element are the formats' published layouts.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.config.read import read_config
from kvcalc.catalog.quantization.checkpoint import find_quantization
from kvcalc.counting.weights import counted_weight_bytes, matrix_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Source
from kvcalc.specs.model import ModelSpec, Tensor

DENSE: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
MOE: dict[str, Any] = DENSE | {
    "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 64,
}  # fmt: skip


def read(config: Mapping[str, Any], quant: object = None, own_file: Mapping[str, Any] | None = None) -> ModelSpec:
    given = dict(config) if quant is None else {**config, "quantization_config": quant}
    return read_config(given, "m", Source(what="test"), own_file)


def formats(model: ModelSpec) -> dict[str, str]:
    """The format of every tensor by its full path."""
    inside = {group.path(i, t): t.format.name for group in model.groups for i in group.layers for t in group.tensors}
    return inside | {t.module: t.format.name for t in model.tensors}


def tensor(model: ModelSpec, path: str) -> Tensor:
    return next(t for g in model.groups for i in g.layers for t in g.tensors if g.path(i, t) == path and t.matmul)


Q, GATE, HEAD = "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.gate", "lm_head"
EXPERT = "model.layers.1.mlp.experts.0.up_proj"


@pytest.mark.parametrize(
    ("quant", "name", "extra_bits"),  # bits per element of a 512 × 512 matrix: q_proj
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", 8 + 32 / 128**2),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", 8 + 32 / 512**2),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8", 8 + 64 / 512**2),
        ({"quant_method": "fbgemm_fp8"}, "fp8-channel", 8 + 32 / 512 + 32 / 512**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4-g128", 4 + 20 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4-g128", 4 + 20 / 128 + 32 / 512),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8-channel", 8 + 24 / 512 + 32 / 512),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            "nf4",
            4 + 32 / 64 + 16 * 32 / 512**2,
        ),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 8 + 32 / 512 + 8 / 512**2),
        ({"quant_method": "mxfp8"}, "mxfp8", 8 + 8 / 32),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4", 4 + 8 / 16 + 64 / 512**2),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, "fp8", 8 + 64 / 512**2),
        ({"quant_method": "eetq"}, "int8-channel", 8 + 16 / 512),
        (
            {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
            "int4-g64",
            4.5,
        ),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "int4-g128", 4 + 20 / 128 + 32 / 512),
        ({"bits": 4, "group_size": 64, "mode": "affine"}, "int4-g64", 4.5),
        ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, "mxfp4", 4.25),
    ],
)
def test_bits_per_element_of_each_scheme(quant: dict[str, Any], name: str, extra_bits: float) -> None:
    model = read(DENSE, quant)
    query = tensor(model, Q)
    assert query.format.name == name
    assert matrix_bytes(query.shape, query.format) * 8 == pytest.approx(extra_bits * 512 * 512, rel=1e-9)
    assert model.quantization


WEIGHTS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True}


@pytest.mark.parametrize(
    ("weights", "activations", "layout", "name", "bits"),
    [
        (WEIGHTS, None, "pack-quantized", "int4-g128", 4 + 16 / 128 + 64 / 512**2),
        (WEIGHTS | {"group_size": 32}, None, "pack-quantized", "int4-g32", 4 + 16 / 32 + 64 / 512**2),
        (WEIGHTS | {"symmetric": False}, None, "pack-quantized", "int4-g128", 4 + 20 / 128 + 64 / 512**2),
        (WEIGHTS | {"actorder": "group"}, None, "pack-quantized", "int4-g128", 4 + 16 / 128 + 32 / 512 + 64 / 512**2),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int", "dynamic": True},
         "int-quantized", "int8", 8 + 16 / 512),
        (FLOAT8 | {"strategy": "channel"}, {"num_bits": 8, "type": "float", "dynamic": True},
         "float-quantized", "fp8-channel", 8 + 16 / 512),
        (FLOAT8 | {"strategy": "tensor"}, {"num_bits": 8, "type": "float", "dynamic": False},
         "float-quantized", "fp8", 8 + 32 / 512**2),
        (FLOAT8 | {"strategy": "block", "block_structure": [128, 128]},
         {"num_bits": 8, "type": "float", "dynamic": True}, "float-quantized", "fp8-block", 8 + 16 / 128**2),
        ({"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"},
         {"num_bits": 4, "type": "float", "dynamic": "local"}, "nvfp4-pack-quantized", "nvfp4", 4.5 + 64 / 512**2),
        ({"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"}, None,
         "nvfp4-pack-quantized", "nvfp4-w4a16", 4.5 + 32 / 512**2),
        ({"num_bits": 4, "type": "float", "group_size": 32, "strategy": "group", "scale_dtype": "torch.uint8"}, None,
         "mxfp4-pack-quantized", "mxfp4", 4.25),
    ],
)  # fmt: skip
def test_compressed_tensors(
    weights: dict[str, Any], activations: dict[str, Any] | None, layout: str, name: str, bits: float
) -> None:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    quant = {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"g": group}, "ignore": [HEAD]}
    query = tensor(read(DENSE, quant), Q)
    assert query.format.name == name
    assert matrix_bytes(query.shape, query.format) * 8 == pytest.approx(bits * 512 * 512, rel=1e-9)


NVFP4_GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}


@pytest.mark.parametrize(
    ("quant", "covered", "kept"),
    [
        # transformers adds the head and tied modules to any list; routers are no linears
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, [Q, EXPERT], [GATE, HEAD, "model.embed_tokens"]),
        ({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.self_attn"]}, [EXPERT], [Q]),
        # "layers.1" is a whole component: not layer 10 or 11
        ({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0"]}, [Q], [Q.replace("1", "0")]),
        # a regular expression from the start that ends between components, as gpt-oss lists
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", HEAD]}, [EXPERT], [Q, GATE]),
        # a bare component anywhere: MiniMax lists "gate"
        ({"quant_method": "fp8", "modules_to_not_convert": ["gate", "q_proj"]}, [EXPERT], [Q]),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, [Q, EXPERT], [HEAD, GATE]),
        ({"quant_method": "gptq", "bits": 4, "lm_head": True}, [HEAD], [GATE]),
        ({"quant_method": "gptq", "modules_in_block_to_quantize": [["self_attn.q_proj"]]}, [Q], [EXPERT]),
        ({"quant_method": "gptq", "dynamic": {"-:.*self_attn": {}}}, [EXPERT], [Q]),
        ({"quant_method": "awq", "modules_to_not_convert": ["self_attn"]}, [EXPERT], [Q]),
        # ModelOpt: shell patterns for the whole path
        ({"quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.1.self_attn*"]}, [EXPERT], [Q, HEAD]),
        ({"quant_algo": "NVFP4", "ignore": ["*.mlp.experts.*", "lm_head"]}, [Q], [EXPERT]),
        ({"quant_algo": "NVFP4", "ignore": ["*.mlp.gate"]}, [Q, HEAD], [GATE]),
        ({"quant_algo": "NVFP4"}, [Q], [HEAD, GATE]),
        # another root than the model's: a multimodal checkpoint of the same decoder; its MTP layers are other layers
        ({"quant_algo": "NVFP4", "ignore": ["language_model.model.layers.1.self_attn*"]}, [EXPERT], [Q]),
        ({"quant_algo": "NVFP4", "ignore": ["mtp.layers.1*", "mtp*"]}, [Q, EXPERT], []),
        # mixed: only what is listed
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {Q: {"quant_algo": "FP8"}}}, [Q], [EXPERT, HEAD]),
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.1.mlp.experts": {"quant_algo": "NVFP4"}}},
         [EXPERT], [Q, "model.layers.0.mlp.experts.0.up_proj"]),
        # compressed-tensors: exact names, "re:" from the start, classes
        ({"config_groups": {"g": NVFP4_GROUP}, "ignore": ["re:.*self_attn.*", HEAD]}, [EXPERT], [Q, GATE, HEAD]),
        ({"config_groups": {"g": NVFP4_GROUP}, "ignore": [Q]}, [EXPERT, HEAD], [Q]),
        ({"config_groups": {"g": NVFP4_GROUP | {"targets": ["re:.*experts.*"]}}}, [EXPERT], [Q, HEAD]),
        ({"config_groups": {"g": NVFP4_GROUP | {"targets": [Q]}}}, [Q], [EXPERT]),
        # an engine's fused name stands for its parts
        ({"config_groups": {"g": NVFP4_GROUP}, "ignore": ["re:.*qkv_proj$"]}, [EXPERT], [Q]),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": [HEAD, "mlp"]}, [Q], [EXPERT]),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}},
          "exclude": ["*self_attn*"]}, [EXPERT], [Q]),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group",
          "group_size": 32, "scale_format": "e8m0"}}, "layer_quant_config": {"*q_proj": {"weight": None}}},
         [EXPERT], [Q]),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
          "_data": {"group_size": 128}}}, "modules_to_not_convert": ["self_attn"]}, [EXPERT], [Q, HEAD]),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "FqnToConfig", "_data": {"fqn_to_config": {
          Q: {"_type": "Int8WeightOnlyConfig", "_data": {}}}}}}}, [Q], [EXPERT]),
        ({"quant_method": "auto-round", "bits": 4, "extra_config": {Q: {"bits": 16}}}, [EXPERT], [Q]),
        # MLX covers the embedding, the head and routers too; a path may be switched off or changed
        ({"bits": 4, "group_size": 64, Q: False}, [EXPERT, HEAD, GATE, "model.embed_tokens"], [Q]),
    ],
)  # fmt: skip
def test_what_is_covered(quant: dict[str, Any], covered: list[str], kept: list[str]) -> None:
    if "config_groups" in quant:
        quant = {"quant_method": "compressed-tensors", **quant}
    found = formats(read(MOE, quant))
    assert {path: found[path] for path in kept} == dict.fromkeys(kept, "bf16")
    assert [path for path in covered if found[path] == "bf16"] == []


def test_layers_that_differ_become_groups_of_their_own() -> None:
    model = read(DENSE, {"quant_algo": "NVFP4", "ignore": ["model.layers.1*", "lm_head"]})
    assert sorted(group.layers for group in model.groups) == [(0, 2), (1,)]
    assert sorted(i for group in model.groups for i in group.layers) == [0, 1, 2]


def test_mlx_changes_a_path() -> None:
    quant = {"bits": 4, "group_size": 64, "mode": "affine", GATE: {"bits": 8, "group_size": 64}}
    found = formats(read(MOE, quant))
    assert (found[GATE], found["model.layers.0.mlp.gate"]) == ("int8-g64", "int4-g64")


def test_a_pack_with_a_version_keeps_its_shape_in_int64() -> None:
    group = {"targets": ["Linear"], "weights": WEIGHTS}
    quant = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": group}}
    sizes = [tensor(read(DENSE, quant | more), Q).format.bits_per_tensor for more in ({}, {"version": "0.12"})]
    assert sizes == [64, 128]


@pytest.mark.parametrize(
    "quant",
    [
        {"quant_method": "brand_new"}, {"quant_method": 7}, {"quant_method": None}, {}, [], "fp8", 3,
        {"quant_algo": "NVFP9"}, {"quant_algo": "MIXED_PRECISION"}, {"quant_method": "bitsandbytes"},
        {"quant_method": "fp8", "weight_block_size": [128]}, {"quant_method": "fp8", "weight_block_size": "big"},
        {"quant_method": "compressed-tensors"}, {"quant_method": "compressed-tensors", "config_groups": []},
        {"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {}},
        {"quant_method": "gptq", "bits": 400}, {"quant_method": "awq", "group_size": "x"},
        {"quant_method": "torchao", "quant_type": "float1"}, {"quant_method": "quark", "global_quant_config": 3},
        {"quant_method": "fp8", "modules_to_not_convert": [7]}, {"quant_method": "fp8", "modules_to_not_convert": 7},
        {"quant_method": "compressed-tensors", "config_groups": {"g": NVFP4_GROUP}, "ignore": ["re:(a+)+$"]},
        {"quant_method": "compressed-tensors", "config_groups": {"g": NVFP4_GROUP}, "ignore": ["re:("]},
    ],
)  # fmt: skip
def test_what_nobody_knows_is_an_error(quant: object) -> None:
    if quant in ({}, []):
        assert read(DENSE, quant).quantization is None
        return
    with pytest.raises(KvcalcError):
        read(DENSE, quant)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(KvcalcError, match="brand_new"):
        read(DENSE, {"quant_method": "brand_new"})
    with pytest.raises(KvcalcError, match="NVFP9"):
        read(DENSE, {"quant_algo": "NVFP9"})


def test_modelopts_own_file_serves_where_the_config_says_nothing() -> None:
    own = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    model = read(DENSE, None, own)
    assert (model.kv_cache_dtype, tensor(model, Q).format.name) == ("fp8", "nvfp4")
    assert find_quantization(DENSE, None) is None


def test_other_dtypes_than_bf16() -> None:
    sizes = {d: counted_weight_bytes(read(DENSE | {"torch_dtype": d})) for d in ("bfloat16", "float16", "float32")}
    assert sizes["float32"] == 2 * sizes["float16"] == 2 * sizes["bfloat16"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
REAL = [
    {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "ignored_layers": ["a"]},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"+:.*": {"bits": 8}}},
    {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": {"quant_algo": "FP8"}}},
    {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["re:.*a"],
     "config_groups": {"g": {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": None}}},
    {"quant_method": "quark", "exclude": ["a"],
     "global_quant_config": {"weight": {"dtype": "int4", "qscheme": "per_group"}}},
    {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {}}}},
    {"quant_method": "auto-round", "bits": 4, "extra_config": {"a": {"bits": 8}}},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
    {"bits": 4, "group_size": 64, "mode": "affine", "a.b": {"bits": 8}},
]  # fmt: skip


@given(st.sampled_from(REAL), st.data())
def test_no_change_of_a_real_scheme_gives_a_traceback(real: dict[str, Any], data: st.DataObject) -> None:
    quant = json.loads(json.dumps(real))
    place: Any = quant
    for _ in range(data.draw(st.integers(0, 3))):
        inner = [value for value in place.values() if isinstance(value, dict)]
        if not inner:
            break
        place = data.draw(st.sampled_from(inner))
    place[data.draw(st.sampled_from([*place, "group_size", "ignore"]))] = data.draw(JSON)
    with contextlib.suppress(KvcalcError):
        read(MOE, quant)


def test_lists_of_every_expert_are_quick() -> None:
    """AutoRound's and ModelOpt's mixed checkpoints name every matrix: ten thousand of them and more."""
    names = [f"model.layers.{i}.mlp.experts.{j}.up_proj" for i in range(40) for j in range(256)]
    start = time.monotonic()
    read(MOE, {"quant_method": "auto-round", "bits": 4, "extra_config": {n: {"bits": 8} for n in names}})
    read(MOE, {"quant_algo": "MIXED_PRECISION", "quantized_layers": {n: {"quant_algo": "FP8"} for n in names}})
    assert time.monotonic() - start < 60  # it hangs, were it longer
    with pytest.raises(KvcalcError, match="patterns"):
        read(MOE, {"quant_algo": "NVFP4", "ignore": [f"*{n}*" for n in names]})
