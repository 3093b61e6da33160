"""Real weights: the tokens are those of the transformers library."""

from pathlib import Path
from typing import Any

import pytest
import torch

from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.executor.cache import Cache, windows_of
from kvcalc.executor.checkpoint import load_weights
from kvcalc.executor.device import Device
from kvcalc.executor.generate import generate
from kvcalc.executor.loop import Decoder, Manner
from kvcalc.executor.shape import Shape, shape_of

transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 211,
    "max_position_embeddings": 256,
    "eos_token_id": None,
    "dtype": "float32",
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
MODELS = {
    "llama": ("Llama", {"rope_parameters": LLAMA3}),
    "llama, tied, one KV head, biases": (
        "Llama", {"num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}
    ),
    "llama, a KV head for each head": (
        "Llama", {"num_key_value_heads": 8, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2}}
    ),
    "mistral, window": ("Mistral", {"sliding_window": 24}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2, window in some layers": (
        "Qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}
    ),
    "qwen3": ("Qwen3", {"head_dim": 32}),
}  # fmt: skip
PROMPTS = [[1, 5, 9], [3], list(range(10, 50)), [7, 7, 7, 7, 200]]
NEW = 20


def checkpoint(kind: str, keys: dict[str, Any], folder: Path) -> Any:
    """A model with weights far enough from zero that its tokens vary, saved as safetensors."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **keys})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(0.1 * torch.randn_like(parameter))
        else:
            parameter.data.mul_(4)
    model.save_pretrained(folder)
    return model


def decoder_of(folder: Path, slots: int, page_size: int) -> tuple[Decoder, Shape]:
    shape = shape_of(load_model(str(folder)))
    weights, numerics = load_weights(folder, shape, torch.float32, torch.device("cpu"))
    weights.pack()
    cache = Cache(shape, [24] * len(windows_of(shape)), page_size, torch.float32, torch.device("cpu"))
    return Decoder(weights, cache, Device("cpu"), slots, 64, Manner(numerics)), shape


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    model = checkpoint(*MODELS[name], tmp_path)
    with torch.inference_mode():
        # Three slots for four prompts: one finishes and is replaced while the others go on.
        decoder, _ = decoder_of(tmp_path, slots=3, page_size=16)
        found = generate(decoder, PROMPTS, NEW)
        for prompt, tokens in zip(PROMPTS, found, strict=True):
            want = model.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, pad_token_id=0)
            assert tokens == want[0, len(prompt) :].tolist()
    assert len({token for tokens in found for token in tokens}) > 4
    assert all(pool.used == 0 for pool in decoder.model.cache.pages.pools)


def test_prompts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    checkpoint("Llama", {}, tmp_path)
    decoder, _ = decoder_of(tmp_path, slots=1, page_size=16)
    for prompts in ([[]], [[1] * 100]):
        with pytest.raises(KvcalcError, match="tokens"):
            generate(decoder, prompts, 5)


def test_checkpoints_that_do_not_fit_the_model_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    checkpoint("Llama", {}, tmp_path)
    shape = shape_of(load_model(str(tmp_path)))
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)

    def load() -> None:
        load_weights(tmp_path, shape, torch.float32, torch.device("cpu"))

    load()
    save_file({name: tensor for name, tensor in tensors.items() if "layers.1.mlp.up" not in name}, file)
    with pytest.raises(KvcalcError, match=r"lacks 1 tensors, as model\.layers\.1\.mlp\.up_proj\.weight"):
        load()
    save_file({**tensors, "model.norm.weight": torch.zeros(3)}, file)
    with pytest.raises(KvcalcError, match=r"model\.norm\.weight is \(3,\) and not \(64,\)"):
        load()
    save_file({**tensors, "model.surprise": torch.zeros(3)}, file)
    with pytest.raises(KvcalcError, match=r"model\.surprise"):
        load()
    file.write_bytes(b"not tensors")
    with pytest.raises(KvcalcError, match="cannot read"):
        load()
    file.unlink()
    with pytest.raises(KvcalcError, match=r"no \*\.safetensors"):
        load()


@pytest.mark.parametrize(
    "change, what",
    [
        ({"model_type": "gemma"}, "gemma"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
        ({"partial_rotary_factor": 0.5}, "0.5"),
    ],
)
def test_unknown_arithmetic_is_refused(change: dict[str, Any], what: str) -> None:
    from kvcalc.executor.numerics import numerics_of

    with pytest.raises(KvcalcError, match=what):
        numerics_of({"model_type": "llama", **change})
