"""GGUF headers: tensors to the byte, mixers from the metadata, damage refused."""

import contextlib
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.headers.gguf import shard_names
from kvcalc.catalog.headers.gguf_file import read_gguf
from kvcalc.catalog.models import load_model
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import LatentAttention, MoeMlp, Recurrent
from tests.catalog.gguf_bytes import F16, F32, MXFP4, Q4_K, Q8_0, Shape, decoder, gguf, size


def written(tmp_path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[Shape, int]]) -> str:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(metadata, tensors))
    return str(path)


def test_a_plain_decoder_to_the_byte(tmp_path: Path) -> None:
    metadata, tensors = decoder(3)
    model = load_model(written(tmp_path, metadata, tensors))
    assert model.weight_file_bytes == size(tensors) == counted_weight_bytes(model)
    assert (model.layers, model.hidden, model.vocab, model.max_context) == (3, 256, 5000, 4096)
    assert model.quantization == "gguf Q4_K_M"
    assert model.tied_embeddings
    assert cache_profile(model, "fp16").bytes_per_token == 3 * 2 * (64 + 64) * 2


def test_windows_by_llama_cpps_pattern_are_an_assumption(tmp_path: Path) -> None:
    metadata, tensors = decoder(12, "gemma3", **{"attention.sliding_window": 512})
    model = load_model(written(tmp_path, metadata, tensors))
    full = [i for g in model.groups for i in g.layers if g.mixers[0].window is None]  # type: ignore[union-attr]
    assert full == [5, 11]
    assert [a.name for a in model.assumptions] == ["sliding_window_pattern"]


def test_windows_by_the_files_own_pattern(tmp_path: Path) -> None:
    more = {"attention.sliding_window": 512, "attention.sliding_window_pattern": [True, False, True]}
    model = load_model(written(tmp_path, *decoder(3, "gemma3", **more)))
    assert [g.layers for g in model.groups] == [(0, 2), (1,)]
    assert not model.assumptions


def test_a_window_without_a_pattern_is_no_guess(tmp_path: Path) -> None:
    name = written(tmp_path, *decoder(2, "newarch", **{"attention.sliding_window": 512}))
    with pytest.raises(KvcalcError, match=r"newarch\.attention\.sliding_window"):
        load_model(name)


def test_heads_of_each_layer(tmp_path: Path) -> None:
    metadata, tensors = decoder(2, "openelm", **{"attention.head_count_kv": [2, 1], "attention.key_length": 64})
    tensors["blk.1.attn_k.weight"] = ((64, 256), Q4_K)
    tensors["blk.1.attn_v.weight"] = ((64, 256), Q4_K)
    model = load_model(written(tmp_path, metadata, tensors))
    assert cache_profile(model, "fp16").bytes_per_token == (2 + 1) * 128 * 2


def test_experts_latents_states_and_idle_layers(tmp_path: Path) -> None:
    more = {
        "expert_count": 8, "expert_used_count": 2, "nextn_predict_layers": 1, "attention.kv_lora_rank": 512,
        "attention.q_lora_rank": 768, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
        "rope.dimension_count": 64, "ssm.conv_kernel": 4, "ssm.inner_size": 1024, "ssm.state_size": 128,
        "ssm.time_step_rank": 8,
    }  # fmt: skip
    metadata, tensors = decoder(4, "mixed", **more)
    for name, shape in (("ffn_gate", (8, 64, 256)), ("ffn_up", (8, 64, 256)), ("ffn_down", (8, 256, 64))):
        del tensors[f"blk.0.{name}.weight"]
        tensors[f"blk.0.{name}_exps.weight"] = (shape, MXFP4)
    tensors["blk.0.ffn_gate_inp.weight"] = ((8, 256), F32)
    tensors["blk.0.exp_probs_b.bias"] = ((8,), F32)
    tensors["blk.1.attn_kv_a_mqa.weight"] = ((576, 256), Q4_K)
    for name in ("q", "k", "v"):
        del tensors[f"blk.2.attn_{name}.weight"]
    tensors["blk.2.ssm_conv1d.weight"] = ((1280, 4), F32)
    tensors["blk.2.ssm_in.weight"] = ((2312, 256), Q8_0)
    tensors["blk.3.nextn.eh_proj.weight"] = ((256, 512), Q8_0)
    model = load_model(written(tmp_path, metadata, tensors))
    by_layer = {i: group for group in (*model.groups, *model.mtp) for i in group.layers}
    moe, latent, state = by_layer[0].mlp, by_layer[1].mixers[0], by_layer[2].mixers[0]
    assert isinstance(moe, MoeMlp)
    assert (moe.experts, moe.top_k, moe.expert_width, moe.gated) == (8, 2, 64, True)
    assert isinstance(latent, LatentAttention)
    assert (latent.kv_lora_rank, latent.rope_head_dim, latent.nope_head_dim, latent.v_head_dim) == (512, 64, 128, 128)
    assert isinstance(state, Recurrent)
    assert (state.family, state.conv_channels, state.state_elements) == ("mamba2", 1280, 1024 * 128)
    assert [group.layers for group in model.mtp] == [(3,)]
    assert model.weight_file_bytes == size(tensors) == counted_weight_bytes(model)


def test_tensors_nobody_knows_are_counted_and_said(tmp_path: Path) -> None:
    metadata, tensors = decoder(1)
    tensors["blk.0.novel_memory.weight"] = ((256, 256), F16)
    model = load_model(written(tmp_path, metadata, tensors))
    assert model.weight_file_bytes == size(tensors)
    assert [a.value for a in model.assumptions] == ["novel_memory"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"attention.head_count_kv": 4}, "attn_k.weight has 128 rows.*4 key-value heads of 64: 256"),
        ({"attention.key_length": 32}, "attn_k.weight has 128 rows.*2 key-value heads of 32: 64"),
        ({"attention.value_length": 32}, "attn_v.weight has 128 rows.*2 key-value heads of 32: 64"),
        ({"embedding_length": 512, "attention.key_length": 64}, "token_embd.weight is of 5000 × 256.*512"),
    ],
)
def test_a_file_that_contradicts_itself_is_an_error(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(KvcalcError, match=said) as error:
        load_model(written(tmp_path, *decoder(2, **more)))
    assert "contradicts itself" in error.value.hint


def test_experts_that_the_tensors_do_not_have_are_an_error(tmp_path: Path) -> None:
    metadata, tensors = decoder(1, expert_count=16, expert_used_count=2)
    for name, shape in (("gate", (8, 64, 256)), ("up", (8, 64, 256)), ("down", (8, 256, 64))):
        tensors[f"blk.0.ffn_{name}_exps.weight"] = (shape, F16)
    with pytest.raises(KvcalcError, match="8 experts, and the file's metadata says 16"):
        load_model(written(tmp_path, metadata, tensors))


def test_shards_belong_together(tmp_path: Path) -> None:
    metadata, tensors = decoder(2)
    names = list(tensors)
    for index, part in enumerate((names[:7], names[7:]), 1):
        path = tmp_path / f"m-{index:05}-of-00002.gguf"
        path.write_bytes(gguf(metadata | {"split.count": 2}, {name: tensors[name] for name in part}))
    assert load_model(str(tmp_path / "m-00001-of-00002.gguf")).weight_file_bytes == size(tensors)
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(KvcalcError, match="00002-of-00002"):
        load_model(str(tmp_path / "m-00001-of-00002.gguf"))
    assert shard_names("plain.gguf") == ["plain.gguf"]


def test_a_folder_with_one_gguf(tmp_path: Path) -> None:
    written(tmp_path, *decoder(1))
    assert load_model(str(tmp_path)).layers == 1


@pytest.mark.parametrize(
    "data",
    [
        b"", b"GGUF", b"GGML" + bytes(100), b"GGUF" + struct.pack("<IQQ", 9, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), gguf(*decoder(1))[:-40],
        gguf(decoder(1)[0], {"token_embd.weight": ((2**62, 256), F32)}),
        gguf(decoder(1)[0], {"token_embd.weight": ((5, 255), Q4_K)}),
        gguf(decoder(1)[0], {"token_embd.weight": ((5, 256), 77)}),
        gguf({"general.architecture": "clip"}, {}), gguf({}, {}), gguf(decoder(2)[0], decoder(1)[1]),
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(KvcalcError):
        load_model(str(path))


@given(st.binary(max_size=200), st.integers(0, 2000))
def test_no_bytes_give_a_traceback(noise: bytes, at: int) -> None:
    whole = gguf(*decoder(1))[:6000]
    data = whole[:at] + noise + whole[at + len(noise) :]
    with contextlib.suppress(KvcalcError):
        read_gguf(lambda start, length: data[start : start + length], "noise")
