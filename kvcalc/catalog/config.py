"""config.json → ModelSpec: parameters, cache and state, by what the keys say."""

from collections.abc import Mapping

from kvcalc.catalog.families.decoder import outer_tensors, read_groups
from kvcalc.catalog.families.defaults import defaults_of
from kvcalc.catalog.families.table import traits_of
from kvcalc.catalog.keys import Keys
from kvcalc.catalog.quantization import apply_quantization
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, Source
from kvcalc.specs.formats import DTYPE_ALIASES, PLAIN
from kvcalc.specs.model import ModelSpec

# Where the text decoder of a model with more than text lives.
NESTED = ("text_config", "llm_config", "language_config", "language_model_config")

FLATTENED = ("attn_config", "ffn_config", "sparse_attention_config")


def read_config(
    config: Mapping[str, object],
    name: str,
    source: Source,
    hf_quant_config: Mapping[str, object] | None = None,
) -> ModelSpec:
    """The model that a config.json describes.

    Args:
        config: the parsed config.json.
        name: what to call the model in answers.
        source: where the config came from.
        hf_quant_config: the parsed hf_quant_config.json, if the checkpoint has one.

    Raises KvcalcError where a key is missing, has a wrong type, or shapes the cache in a way kvcalc does not know.
    """
    root = Keys(config)
    family = root.text("model_type") or ""
    keys, model_type = _text_decoder(root, family)
    traits = traits_of(model_type)
    keys = _flat(keys.with_defaults(defaults_of(model_type)))
    hidden = keys.need("hidden_size", "n_embd", "d_model", "dim", "model_dim")
    vocab = keys.need("vocab_size", "padded_vocab_size")
    tied = root.flag("tie_word_embeddings") if root.given("tie_word_embeddings") else keys.flag("tie_word_embeddings")
    model = ModelSpec(
        name=name,
        family=family or model_type,
        hidden=hidden,
        vocab=vocab,
        max_context=keys.integer("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
        dtype=_dtype(root, keys),
        tied_embeddings=tied,
        groups=read_groups(keys, traits, hidden),
        tensors=outer_tensors(keys, traits, hidden, vocab, tied),
        assumptions=() if traits.known else (_unknown(model_type),),
        sources=(source,),
    )
    return apply_quantization(model, config, hf_quant_config)


def _text_decoder(root: Keys, family: str) -> tuple[Keys, str]:
    """The keys of the text decoder and its model_type."""
    thinker = root.child("thinker_config") or root
    nested = thinker.child(*NESTED)
    if nested is None:
        return root, traits_of(family).text or family
    return nested, nested.text("model_type") or traits_of(family).text or family


def _flat(keys: Keys) -> Keys:
    """Keys of nested objects beside the rest: DBRX's and MPT's attention, MiniMax-M3's sparse attention."""
    for name in FLATTENED:
        nested = keys.child(name)
        if nested is not None:
            keys = keys.over({key: nested.raw(key) for key in nested.names()})
    return keys


def _dtype(root: Keys, keys: Keys) -> str:
    said = root.text("dtype", "torch_dtype") or keys.text("dtype", "torch_dtype") or "bfloat16"
    name = DTYPE_ALIASES.get(said.removeprefix("torch."), said)
    if name not in PLAIN:
        raise KvcalcError(f"torch_dtype is {said!r}, not a dtype of weights", hint=f"one of {', '.join(PLAIN)}")
    return name


def _unknown(model_type: str) -> Assumption:
    return Assumption(
        name="architecture",
        value=model_type[:100] or None,
        why="a model_type that kvcalc has not met: read by its keys, without biases that they do not say",
    )
