"""A tiny model for a Hub on localhost, and what tests do with one."""

import pytest
from huggingface_hub import constants, file_download

from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError

TOKEN = "hf_secretsecretsecretsecretsecret"
CONFIG: dict[str, object] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16", "tie_word_embeddings": True,
}  # fmt: skip
# Per layer: q and o 64 × 64, k and v 32 × 64, three MLP matrices 128 × 64, two norms; embedding 100 × 64; final norm.
PARAMETERS = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64) + 100 * 64 + 64


def point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As HF_ENDPOINT does when the library is first imported; before 1.0 a module keeps a copy of the template."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    for module in (constants, file_download):
        template = url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)


def be_patient(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", seconds)
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", seconds)


def refused(name: str) -> KvcalcError:
    """The error that loading gives; it never holds the token."""
    with pytest.raises(KvcalcError) as caught:
        load_model(name)
    assert TOKEN not in caught.value.message + caught.value.hint
    return caught.value
