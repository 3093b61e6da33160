"""A config beside its checkpoint: shapes and sums confirm it, settle its doubts, correct it, or contradict it."""

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from kvcalc.catalog.headers.projections import rows_of
from kvcalc.catalog.models import load_model
from kvcalc.counting.cache import cache_profile
from kvcalc.errors import KvcalcError
from tests.catalog.hub_server import safetensors_file

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16", "tie_word_embeddings": True,
}  # fmt: skip


def tensors(kv: dict[int, int] | None = None, shared: tuple[int, ...] = ()) -> dict[str, list[int]]:
    """A Llama of four layers; `kv` has the rows of keys and values where not 32, `shared` the layers without."""
    found = {"model.embed_tokens.weight": [100, 64], "model.norm.weight": [64]}
    for layer in range(4):
        at, rows = f"model.layers.{layer}.", (kv or {}).get(layer, 32)
        shapes = {"self_attn.q_proj": [64, 64], "self_attn.o_proj": [64, 64], "input_layernorm": [64],
                  "post_attention_layernorm": [64], "mlp.gate_proj": [128, 64], "mlp.up_proj": [128, 64],
                  "mlp.down_proj": [64, 128]}  # fmt: skip
        if layer not in shared:
            shapes |= {"self_attn.k_proj": [rows, 64], "self_attn.v_proj": [rows, 64]}
        found |= {f"{at}{name}.weight": shape for name, shape in shapes.items()}
    return found


def folder(place: Path, shapes: dict[str, list[int]], **more: Any) -> str:
    (place / "config.json").write_text(json.dumps(CONFIG | more))
    data = {name: ("BF16", shape, 2 * prod(shape)) for name, shape in shapes.items()}
    (place / "model.safetensors").write_bytes(safetensors_file(data))
    return str(place)


def test_what_agrees_is_confirmed(tmp_path: Path) -> None:
    model = load_model(folder(tmp_path, tensors()))
    said = "confirmed by the checkpoint's tensors: keys and values of 4 layers, and the sum of all tensors"
    assert model.sources[-2].what == said
    assert (model.doubts, model.warnings) == ((), ())


def test_a_doubt_that_the_tensors_do_not_bear_out_is_settled(tmp_path: Path) -> None:
    name = folder(tmp_path, tensors(), bottleneck_rank=7, kv_compression_window=7)
    model = load_model(name)
    assert [doubt.name for doubt in model.doubts] == ["kv_compression_window"]  # no tensor shows what is kept
    assert [a.name for a in model.assumptions] == ["bottleneck_rank", "kv_compression_window"]
    with pytest.raises(KvcalcError, match="kv_compression_window"):
        load_model(name, strict=True)
    assert load_model(folder(tmp_path, tensors(), bottleneck_rank=7), strict=True).layers == 4


def test_a_width_that_the_config_does_not_explain_stays_a_doubt(tmp_path: Path) -> None:
    more = tensors() | {"model.layers.0.bottleneck.weight": [700, 64]}
    model = load_model(folder(tmp_path, more, bottleneck_rank=700))
    assert [doubt.name for doubt in model.doubts] == ["bottleneck_rank", "checkpoint"]
    assert f"{2 * sum(map(prod, more.values())):,} bytes" in model.warnings[-1]


def test_a_known_models_contradiction_shows_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(KvcalcError, match="k_proj of layer 2 has 64 rows in the checkpoint, and 32 by its config"):
        load_model(folder(tmp_path, tensors({2: 64})))


def test_a_newcomers_heads_are_corrected_layer_by_layer(tmp_path: Path) -> None:
    model = load_model(folder(tmp_path, tensors({1: 16, 3: 16}), model_type="newcomer"))
    assert {mixer.kv_heads: group.layers for group in model.groups for mixer in group.mixers} == {2: (0, 2), 1: (1, 3)}  # type: ignore[union-attr]
    assert cache_profile(model).bytes_per_token == 2 * 2 * (32 + 16) * 2
    assert "keys and values" in [assumption.name for assumption in model.assumptions]
    assert model.doubts == ()


def test_layers_without_keys_of_their_own_share_a_cache(tmp_path: Path) -> None:
    model = load_model(folder(tmp_path, tensors(shared=(1, 3)), cross_layer_sharing=2))
    assert cache_profile(model).bytes_per_token == 2 * 2 * 32 * 2
    assert model.doubts == ()


def test_rows_that_no_heads_have_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(KvcalcError, match="k_proj has 40 rows in the checkpoint"):
        load_model(folder(tmp_path, tensors({0: 40}), model_type="newcomer"))


@pytest.mark.parametrize(
    ("name", "shape", "want"),
    [
        ("model.language_model.layers.12.self_attn.v_proj.weight_packed", (1024, 512), ("12.v_proj", 1024)),
        ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", (576, 7168), ("0.kv_a_proj_with_mqa", 576)),
        ("model.layers.0.self_attn.k_proj.weight", (2097152, 1), None),  # bitsandbytes packs it flat
        ("model.layers.0.self_attn.k_proj.qweight", (512, 1024), None),
        ("model.decoder.layers.0.encoder_attn.k_proj.weight", (64, 64), None),
        ("model.layers.0.self_attn.indexer.k_proj.weight", (64, 64), None),
        ("model.layers.0.self_attn.k_proj.bias", (64,), None),
    ],
)
def test_which_tensors_make_keys_and_values(name: str, shape: tuple[int, ...], want: object) -> None:
    assert rows_of(name, shape) == want
