"""Kinds of layer as lists and strings in a config give them: one rule for each way of saying it."""

from collections.abc import Callable, Sequence

from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

# How configs name the kinds of layer → kvcalc's name. "mlp" and "moe": a layer that mixes no tokens.
KINDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full",
    "attn": "full", "gqa": "full", "mha": "full", "mla": "full", "softmax": "full",
    "softmax_attention": "full", "self_attention": "full", "multihead_attention": "full",
    "sliding_attention": "sliding", "sliding_window_attention": "sliding", "sliding": "sliding", "local": "sliding",
    "local_attention": "sliding", "swa": "sliding", "window": "sliding", "swa_attention": "sliding",
    "local_attn": "sliding", "sliding_attn": "sliding", "window_attention": "sliding",
    "chunked_attention": "chunked", "chunked": "chunked",
    "indexed_attention": "indexed", "deepseek_sparse_attention": "indexed", "qwen_sparse_attention": "indexed",
    "minimax_m3_sparse": "indexed",
    "compressed_sparse_attention": "compressed_sparse", "heavily_compressed_attention": "heavily_compressed",
    "linear_attention": "recurrent", "linear": "recurrent", "mamba": "recurrent", "mamba2": "recurrent",
    "recurrent": "recurrent", "conv": "recurrent", "short_conv": "recurrent", "rglru": "recurrent",
    "mamba1": "recurrent", "linear_attn": "recurrent", "gated_delta_net": "recurrent", "gdn": "recurrent",
    "gated_deltanet": "recurrent", "kda": "recurrent", "lightning_attention": "recurrent",
    "hybrid": "hybrid", "hybrid_sliding": "hybrid_sliding",
    "mlp": "mlp", "moe": "moe", "none": "none", "no_op": "none",
}  # fmt: skip
LETTERS = {"M": "recurrent", "*": "full", "-": "mlp", "E": "moe"}  # Nemotron-H's pattern
WINDOW_LETTERS = {"L": "sliding", "G": "full"}  # EXAONE-4's

_NUMBERED = (
    ("hybrid_layer_pattern", "sliding", "full"),
    ("sliding_window_layout", "sliding", "full"),
    ("attn_type_list", "full", "recurrent"),
    ("sparse_attention_freq", "indexed", "full"),
)

# Multi-token-prediction layers, as configs call their number.
MTP_COUNT = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers")
MOST_MTP = 16

Rule = Callable[[Keys, int], list[str] | None]


def kind_of(keys: Keys, key: str, name: str) -> str:
    """kvcalc's name of a kind of layer, or an error that names the key."""
    if name not in KINDS:
        raise KvcalcError(
            f"{keys.path(key)} names a kind of layer that kvcalc does not know: {name[:60]!r}",
            hint="describe the model in a TOML card with its cache, or ask for the kind to be added",
        )
    return KINDS[name]


def _enough(keys: Keys, key: str, entries: Sequence[object], count: int) -> None:
    if len(entries) < count:
        raise KvcalcError(
            f"{keys.path(key)} has {len(entries)} entries for {count} layers", hint="give one entry for each layer"
        )


def ratio_kind(ratio: int) -> str:
    return f"compressed_{ratio}" if ratio else "compressed_window"


def _names(keys: Keys, count: int) -> list[str] | None:
    """`layer_types`, `layers_block_type`: one name for each layer; entries of MTP layers may follow."""
    for key in ("layer_types", "layers_block_type"):
        listed = keys.texts(key)
        if listed is not None:
            _enough(keys, key, listed, count)
            drafts = keys.count(*MTP_COUNT, most=MOST_MTP)
            if len(listed) not in (count, count + drafts):
                keys.doubt(key, f"it has {len(listed)} entries for {count} layers: the first {count} are taken")
            return [kind_of(keys, key, name) for name in listed[:count]]
    return None


def _other_names(keys: Keys, count: int) -> list[str] | None:
    """Lists that few configs have: a kind for each layer, or a pattern that is repeated. Other words stay unread."""
    for key in ("mixer_types", "block_pattern", "token_mixer"):
        said = keys.value(key)
        names = [said] if isinstance(said, str) else said
        if isinstance(names, list) and names and all(isinstance(name, str) and name in KINDS for name in names):
            keys.ignore(key)
            return [KINDS[names[layer % len(names)]] for layer in range(count)]
    return None


def _windowed(keys: Keys, count: int) -> list[str] | None:
    """Which layers have the window: by their indices, or by a list of windows with nulls for the rest."""
    windows = keys.value("sliding_window")
    if isinstance(windows, list) and len(windows) >= count:
        return ["sliding" if window else "full" for window in windows[:count]]
    name = next((name for name in ("swa_layers", "sliding_window_layers") if isinstance(keys.value(name), list)), None)
    if name is None or isinstance(windows, list) or not keys.truth("sliding_window"):
        return None
    sliding = set(keys.integers(name) or [])
    return ["sliding" if layer in sliding else "full" for layer in range(count)]


def _letters(keys: Keys, count: int) -> list[str] | None:
    """`hybrid_override_pattern`: M*-E; `sliding_window_pattern` as letters: LLLG, repeated, the last one full."""
    text = keys.text("hybrid_override_pattern")
    if text is not None:
        text = text.replace("|", "")
        _enough(keys, "hybrid_override_pattern", text, count)
        return [letter_kind(keys, "hybrid_override_pattern", LETTERS, letter) for letter in text[:count]]
    value = keys.value("sliding_window_pattern") or keys.declares("sliding_window_pattern")
    if not isinstance(value, str) or not value or not keys.truth("sliding_window"):
        return None
    keys.ignore("sliding_window_pattern")
    kinds = [letter_kind(keys, "sliding_window_pattern", WINDOW_LETTERS, value[i % len(value)]) for i in range(count)]
    return [*kinds[:-1], "full"]


def letter_kind(keys: Keys, key: str, known: dict[str, str], letter: str) -> str:
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


def _hybrids(keys: Keys, count: int) -> list[str] | None:
    """`hybrid_layer_ids` (Zamba2 as first published): the rest recur alone. A list of kinds says the same."""
    if not keys.given("hybrid_layer_ids") or keys.given("layers_block_type", "layer_types"):
        return None
    both = keys.integers("hybrid_layer_ids")
    return None if both is None else ["hybrid" if layer in set(both) else "recurrent" for layer in range(count)]


def _compressed(keys: Keys, count: int) -> list[str] | None:
    """`compress_ratios` (DeepSeek-V4): one for each layer, those of MTP layers after them."""
    ratios = keys.integers("compress_ratios")
    if ratios is None:
        return None
    _enough(keys, "compress_ratios", ratios, count)
    return [ratio_kind(ratio) for ratio in ratios[:count]]


def _cross(keys: Keys, count: int) -> list[str] | None:
    """`cross_attention_layers`: those have no other attention (Llama 3.2 Vision)."""
    across = keys.integers("cross_attention_layers")
    return None if across is None else ["cross" if layer in set(across) else "full" for layer in range(count)]


RULES: tuple[Rule, ...] = (
    _hybrids, _names, _compressed, _letters, _numbers, _full_layers, _spelled, _cycle, _cross, _other_names, _windowed,
)  # fmt: skip
# Those that only models with recurrent layers mean.
RECURRENT_RULES = (_hybrids, _full_layers, _cycle)
