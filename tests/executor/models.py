"""Small models that every test here can afford."""

from kvcalc.catalog.config.read import read_config
from kvcalc.specs.base import Source
from kvcalc.specs.model import ModelSpec

CONFIG = {
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 320,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def model_of(**changes: object) -> ModelSpec:
    """A small Llama with some keys changed."""
    return read_config({**CONFIG, **changes}, "small", Source(what="a test"))
