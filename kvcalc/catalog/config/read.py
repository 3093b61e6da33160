"""config.json → ModelSpec: parameters, cache and state, by what the keys say."""

from collections.abc import Mapping

from kvcalc.catalog.config.families.decoder import read_groups, view
from kvcalc.catalog.config.families.defaults import defaults_of
from kvcalc.catalog.config.families.mtp import read_mtp
from kvcalc.catalog.config.families.nested import encoder_keys, image_tokens, text_decoder
from kvcalc.catalog.config.families.outside import outer_tensors
from kvcalc.catalog.config.families.rotary import rotary_width
from kvcalc.catalog.config.families.sizes import switch
from kvcalc.catalog.config.families.table import traits_of
from kvcalc.catalog.config.families.taken import said_dtype, taken
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.towers import read_towers
from kvcalc.catalog.config.unknown import Unread, facts_of, weigh
from kvcalc.catalog.quantization.checkpoint import apply_quantization
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import OutOfRange, Source, replace
from kvcalc.specs.formats import DTYPE_ALIASES, PLAIN
from kvcalc.specs.model import ModelSpec

TIED = ("tie_embedding", "tie_word_embeddings", "share_input_output_layers")
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
    try:
        return _read(config, name, source, hf_quant_config)
    except OutOfRange as error:  # each key may be well, and what follows from them not: a matrix of no columns
        raise KvcalcError(f"the sizes in the config do not go together: {error}", hint="correct the config") from None


def _read(
    config: Mapping[str, object], name: str, source: Source, hf_quant_config: Mapping[str, object] | None
) -> ModelSpec:
    root = Keys(config)
    family = root.text("model_type") or ""
    _refuse(root, family)
    keys, model_type = text_decoder(root, family)
    traits = traits_of(model_type)
    keys = view(_flat(keys.with_defaults({**defaults_of(model_type), **traits.defaults})), traits, traits.keys)
    _refuse(keys, model_type)
    hidden = keys.need("hidden_size", "n_embd", "d_model", "dim", "model_dim", "embedding_dim")
    vocab = keys.need("vocab_size", "padded_vocab_size")
    tied = _tied(root, keys, family)
    if traits.source == "source_tokens":
        keys = keys.over({"source_tokens": image_tokens(root)})
    towers, assumptions = read_towers(config, root)
    if traits.encoder and root.flag("is_encoder_decoder", default=True):
        from kvcalc.catalog.config.families.encoder import read_encoder

        towers = (*towers, read_encoder(encoder_keys(root, keys), traits, hidden, vocab))
    model = ModelSpec(
        name=name,
        family=family or model_type,
        hidden=hidden,
        vocab=vocab,
        max_context=_max_context(keys),
        dtype=_dtype(root, keys),
        tied_embeddings=tied,
        parallel_residual=switch(keys, traits, traits.parallel),
        groups=read_groups(keys, traits, hidden),
        tensors=outer_tensors(keys, traits, hidden, vocab, tied),
        mtp=read_mtp(keys, traits, hidden, vocab),
        towers=towers,
        assumptions=(*taken(root, keys, traits, model_type), *assumptions),
        sources=(source,),
    )
    unread = _unread(root, keys, traits, model)
    assumptions = (*model.assumptions, *unread.assumptions)
    rope_dim = rotary_width(keys, model.groups)
    model = replace(model, rope_dim=rope_dim, assumptions=assumptions, doubts=unread.doubts)
    return apply_quantization(model, config, hf_quant_config)


def _unread(root: Keys, keys: Keys, traits: Traits, model: ModelSpec) -> Unread:
    """What nothing has read, of the decoder's keys and of those around it."""
    for name in FLATTENED:
        nested = keys.child(name)
        if nested is not None:
            nested.ignore(*filter(keys.was_read, nested.names()))
    facts = facts_of(model.groups)
    found = weigh(keys, traits.understood, facts)
    if keys.views(root):
        return found
    root.ignore(*(name for name in root.names() if keys.value(name) == root.value(name)))  # said twice
    around = weigh(root, traits.understood, facts, deep=False)
    listed, doubts = (*found.assumptions, *around.assumptions), (*found.doubts, *around.doubts)
    return Unread(tuple(dict.fromkeys(listed)), tuple(dict.fromkeys(doubts)))


def _refuse(keys: Keys, model_type: str) -> None:
    """Architectures that are known not to be counted: a wrong number would be worse."""
    traits = traits_of(model_type)
    if traits.refuse and switch(keys, traits, traits.refuse_if):
        raise KvcalcError(f"kvcalc does not count {model_type}: {traits.refuse}", hint="describe it in a TOML card")


def _tied(root: Keys, keys: Keys, family: str) -> bool:
    """Whether head and embedding are one tensor: as the whole config says, else its decoder's, else their classes."""
    if not root.given(*TIED) and not keys.given(*TIED):
        whole = defaults_of(family).get("tie_word_embeddings")
        if whole is not None:
            return bool(whole)
    said = root if root.given("tie_word_embeddings") else keys
    return said.flag(*TIED)


def _max_context(keys: Keys) -> int | None:
    return keys.integer(
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "model_max_length",
        "max_target_positions",
    )


def _flat(keys: Keys) -> Keys:
    """Keys of nested objects beside the rest: DBRX's and MPT's attention, MiniMax-M3's sparse attention."""
    for name in FLATTENED:
        nested = keys.child(name)
        if nested is not None:
            keys = keys.over({key: nested.value(key) for key in nested.names()})
    return keys


def _dtype(root: Keys, keys: Keys) -> str:
    said = said_dtype(root, keys) or "bfloat16"
    name = DTYPE_ALIASES.get(said.removeprefix("torch."), said)
    if name not in PLAIN:
        raise KvcalcError(f"torch_dtype is {said!r}, not a dtype of weights", hint=f"one of {', '.join(PLAIN)}")
    return name
