"""What each layer mixes tokens with: from a list, a string, a period or a pattern in the config."""

from collections.abc import Callable, Sequence

from kvcalc.catalog.config.families.sizes import size
from kvcalc.catalog.config.families.traits import Pattern, Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

# How configs name the kinds of layer → kvcalc's name. "mlp" and "moe": a layer that mixes no tokens.
KINDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full",
    "softmax_attention": "full", "self_attention": "full", "multihead_attention": "full",
    "sliding_attention": "sliding", "sliding_window_attention": "sliding", "sliding": "sliding", "local": "sliding",
    "local_attention": "sliding", "swa": "sliding", "window": "sliding",
    "chunked_attention": "chunked", "chunked": "chunked",
    "indexed_attention": "indexed", "deepseek_sparse_attention": "indexed", "qwen_sparse_attention": "indexed",
    "minimax_m3_sparse": "indexed",
    "compressed_sparse_attention": "compressed_sparse", "heavily_compressed_attention": "heavily_compressed",
    "linear_attention": "recurrent", "linear": "recurrent", "mamba": "recurrent", "mamba2": "recurrent",
    "recurrent": "recurrent", "conv": "recurrent", "short_conv": "recurrent", "rglru": "recurrent",
    "gated_deltanet": "recurrent", "kda": "recurrent", "lightning_attention": "recurrent",
    "hybrid": "hybrid", "hybrid_sliding": "hybrid_sliding",
    "mlp": "mlp", "moe": "moe", "none": "none", "no_op": "none",
}  # fmt: skip
# Keys that say by a period what a list, where there is one, says outright.
PATTERNS = (
    "full_attention_interval", "sliding_window_pattern", "global_attn_every_n_layers", "layer_group_size",
    "attn_layer_period", "attn_layer_offset", "full_attn_idxs", "no_rope_layer_interval", "use_sliding_window",
    "attention_chunk_size", "index_topk_freq", "index_skip_topk_offset", "attention_types", "sliding_window",
)  # fmt: skip
_LETTERS = {"M": "recurrent", "*": "full", "-": "mlp", "E": "moe"}  # Nemotron-H's pattern
_WINDOW_LETTERS = {"L": "sliding", "G": "full"}  # EXAONE-4's

_NUMBERED = (
    ("hybrid_layer_pattern", "sliding", "full"),
    ("attn_type_list", "full", "recurrent"),
    ("sparse_attention_freq", "indexed", "full"),
)

Rule = Callable[[Keys, int], list[str] | None]


def kind_of(keys: Keys, key: str, name: str) -> str:
    """kvcalc's name of a kind of layer, or an error that names the key."""
    if name not in KINDS:
        raise KvcalcError(
            f"{keys.path(key)} names a kind of layer that kvcalc does not know: {name[:60]!r}",
            hint="describe the model in a TOML card with its cache, or ask for the kind to be added",
        )
    return KINDS[name]


def listed_length(keys: Keys) -> int | None:
    """The number of layers where only a list or a pattern of kinds gives it."""
    for name in ("layers_block_type", "layer_types"):
        found = keys.texts(name)
        if found is not None:
            return len(found)
    pattern = keys.text("hybrid_override_pattern")
    return None if pattern is None else len(pattern.replace("|", ""))


def read_kinds(keys: Keys, traits: Traits, count: int) -> list[str]:
    """One kind for each of `count` layers."""
    keys.ignore(*PATTERNS)
    for rule in RULES:
        found = rule(keys, count)
        if found is not None:
            return found
    if traits.pattern is not None:
        return _pattern(keys, traits, traits.pattern, count)
    period = keys.integer("attn_layer_period")
    if period is not None:
        offset = keys.count("attn_layer_offset")
        return ["full" if layer % period == offset else "recurrent" for layer in range(count)]
    window = any(keys.truth(key) for key in traits.window_keys)
    if traits.window == "none" or not window:
        return ["full"] * count
    if traits.window == "late" or (traits.window == "said" and keys.raw("use_sliding_window") is not None):
        start = keys.count("max_window_layers") if keys.flag("use_sliding_window") else count
        return ["full" if layer < start else "sliding" for layer in range(count)]
    return ["sliding"] * count


def extra_kinds(keys: Keys, count: int) -> list[str]:
    """Kinds that lists give beyond the decoder's layers, or apart, for multi-token-prediction layers."""
    for key in ("mtp_layer_types", "mtp_layers_block_type"):
        apart = keys.texts(key)
        if apart:
            return [kind_of(keys, key, name) for name in apart]
    pattern = keys.text("mtp_hybrid_override_pattern")
    if pattern:
        return [_letter(keys, "mtp_hybrid_override_pattern", _LETTERS, letter) for letter in pattern.replace("|", "")]
    listed = keys.texts("layer_types")
    if listed is not None:
        return [kind_of(keys, "layer_types", name) for name in listed[count:]]
    ratios = keys.integers("compress_ratios")
    return [_ratio_kind(ratio) for ratio in ratios[count:]] if ratios is not None else []


def _ratio_kind(ratio: int) -> str:
    return f"compressed_{ratio}" if ratio else "compressed_window"


def _pattern(keys: Keys, traits: Traits, pattern: Pattern, count: int) -> list[str]:
    if pattern.cycle:
        kinds = [KINDS[pattern.cycle[layer % len(pattern.cycle)]] for layer in range(count)]
    else:
        every, phase = size(keys, traits, pattern.every), size(keys, traits, pattern.phase)
        kind, other = KINDS[pattern.kind], KINDS[pattern.other]
        kinds = [kind if every and (layer - phase) % every == 0 else other for layer in range(count)]
    for layer, name in enumerate(pattern.first[:count]):
        kinds[layer] = KINDS[name]
    if pattern.last:
        kinds[-1] = KINDS[pattern.last]
    if not any(keys.truth(key) for key in traits.window_keys):
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    if not keys.truth("attention_chunk_size"):
        kinds = ["full" if kind == "chunked" else kind for kind in kinds]
    return kinds


def _enough(keys: Keys, key: str, entries: Sequence[object], count: int) -> None:
    if len(entries) < count:
        raise KvcalcError(
            f"{keys.path(key)} has {len(entries)} entries for {count} layers", hint="give one entry for each layer"
        )


def _names(keys: Keys, count: int) -> list[str] | None:
    """`layer_types`, `layers_block_type`: one name for each layer; entries of MTP layers may follow."""
    for key in ("layer_types", "layers_block_type"):
        listed = keys.texts(key)
        if listed is not None:
            _enough(keys, key, listed, count)
            return [kind_of(keys, key, name) for name in listed[:count]]
    return None


def _letters(keys: Keys, count: int) -> list[str] | None:
    """`hybrid_override_pattern`: M*-E; `sliding_window_pattern` as letters: LLLG, repeated, the last one full."""
    text = keys.text("hybrid_override_pattern")
    if text is not None:
        text = text.replace("|", "")
        _enough(keys, "hybrid_override_pattern", text, count)
        return [_letter(keys, "hybrid_override_pattern", _LETTERS, letter) for letter in text[:count]]
    value = keys.raw("sliding_window_pattern")
    if not isinstance(value, str) or not value or not keys.truth("sliding_window"):
        return None
    kinds = [_letter(keys, "sliding_window_pattern", _WINDOW_LETTERS, value[i % len(value)]) for i in range(count)]
    return [*kinds[:-1], "full"]


def _letter(keys: Keys, key: str, known: dict[str, str], letter: str) -> str:
    if letter not in known:
        hint = f"known: {', '.join(known)}; describe the model in a TOML card, or ask for it to be added"
        raise KvcalcError(f"{keys.path(key)} has a letter that kvcalc does not know: {letter!r}", hint=hint)
    return known[letter]


def _numbers(keys: Keys, count: int) -> list[str] | None:
    """Lists of ones and noughts: which kind a one is, and which a nought."""
    for key, one, nought in _NUMBERED:
        listed = keys.integers(key)
        if listed is not None:
            _enough(keys, key, listed, count)
            return [one if value else nought for value in listed[:count]]
    return None


def _full_layers(keys: Keys, count: int) -> list[str] | None:
    """Indices of the layers that are not recurrent, or not sliding."""
    linear = keys.child("linear_attn_config")
    if linear is not None and linear.has("kda_layers"):
        recurrent = {index - 1 for index in linear.integers("kda_layers") or []}  # counted from one
        linear.ignore("full_attn_layers")
        return ["recurrent" if layer in recurrent else "full" for layer in range(count)]
    for key in ("full_attn_idxs", "attn_layer_indices"):
        full = keys.integers(key)
        if full is not None:
            return ["full" if layer in set(full) else "recurrent" for layer in range(count)]
    sliding = keys.integers("local_layer_ids")
    if sliding is not None:
        return ["hybrid_sliding" if layer in set(sliding) else "hybrid" for layer in range(count)]
    return None


def _spelled(keys: Keys, count: int) -> list[str] | None:
    """`attention_types` (GPT-Neo): [[kinds, times], ...]."""
    if isinstance(keys.raw("attention_types"), list):
        listed = keys.texts("attention_layers")
        if listed is None:
            listed = _unrolled(keys, count)
        _enough(keys, "attention_types", listed, count)
        return [kind_of(keys, "attention_types", name) for name in listed[:count]]
    return None


def _unrolled(keys: Keys, count: int) -> list[str]:
    found: list[str] = []
    entries = keys.raw("attention_types")
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case [[*names], int(times)] if 0 <= times <= count and all(isinstance(name, str) for name in names):
                found += [*names] * times
            case _:
                raise keys.error(("attention_types",), entry, "a list of kinds and how often they repeat")
    return found


def _cycle(keys: Keys, count: int) -> list[str] | None:
    """`block_types`, repeated (RecurrentGemma: its attention is local)."""
    block = keys.texts("block_types")
    if not block:
        return None
    kinds = ["sliding" if name == "attention" else kind_of(keys, "block_types", name) for name in block]
    return [kinds[layer % len(kinds)] for layer in range(count)]


def _compressed(keys: Keys, count: int) -> list[str] | None:
    """`compress_ratios` (DeepSeek-V4): one for each layer, those of MTP layers after them."""
    ratios = keys.integers("compress_ratios")
    if ratios is None:
        return None
    _enough(keys, "compress_ratios", ratios, count)
    return [_ratio_kind(ratio) for ratio in ratios[:count]]


def _cross(keys: Keys, count: int) -> list[str] | None:
    """`cross_attention_layers`: those have no other attention (Llama 3.2 Vision)."""
    across = keys.integers("cross_attention_layers")
    return None if across is None else ["cross" if layer in set(across) else "full" for layer in range(count)]


RULES: tuple[Rule, ...] = (_names, _compressed, _letters, _numbers, _full_layers, _spelled, _cycle, _cross)
