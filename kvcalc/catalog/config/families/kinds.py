"""What each layer mixes tokens with: from a list, a string, a period or a pattern in the config."""

from collections.abc import Sequence
from itertools import pairwise

from kvcalc.catalog.config.families.kind_lists import (
    KINDS,
    LETTERS,
    RECURRENT_RULES,
    RULES,
    kind_of,
    letter_kind,
    ratio_kind,
)
from kvcalc.catalog.config.families.sizes import size
from kvcalc.catalog.config.families.traits import Pattern, Traits
from kvcalc.catalog.config.keys import Keys

# Keys that say by a period what a list, where there is one, says outright: every so many layers one is full.
PERIODS = (
    "full_attention_interval", "sliding_window_pattern", "global_attn_every_n_layers", "layer_group_size",
    "attn_layer_period", "no_rope_layer_interval",
)  # fmt: skip


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
    recurs = not traits.known or traits.recurrent or traits.state is not None
    for rule in RULES if recurs else [rule for rule in RULES if rule not in RECURRENT_RULES]:
        found = rule(keys, count)
        if found is not None:
            _settle(keys, traits, found)
            return found
    if traits.pattern is not None:
        return _pattern(keys, traits, traits.pattern, count)
    if not traits.known:
        spelled = _spaced(keys, count)
        if spelled is not None:
            return spelled
    period = keys.integer("attn_layer_period") if recurs else None
    if period is not None:
        offset = keys.count("attn_layer_offset")
        return ["full" if layer % period == offset else "recurrent" for layer in range(count)]
    if traits.window == "none" or (traits.window == "late" and not keys.flag("use_sliding_window")):
        return ["full"] * count
    if not any(keys.truth(key) for key in traits.window_keys):
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
        return [
            letter_kind(keys, "mtp_hybrid_override_pattern", LETTERS, letter) for letter in pattern.replace("|", "")
        ]
    listed = keys.texts("layer_types")
    if listed is not None:
        return [kind_of(keys, "layer_types", name) for name in listed[count:]]
    ratios = keys.integers("compress_ratios")
    return [ratio_kind(ratio) for ratio in ratios[count:]] if ratios is not None else []


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
    if "sliding" in kinds and not any(keys.truth(key) for key in traits.window_keys):
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    if "chunked" in kinds and not keys.truth("attention_chunk_size"):
        kinds = ["full" if kind == "chunked" else kind for kind in kinds]
    return kinds


def _settle(keys: Keys, traits: Traits, kinds: Sequence[str]) -> None:
    """A list of kinds settles what periods say; one that says otherwise stays unread, to be told."""
    full = [layer for layer, kind in enumerate(kinds) if mixes_all(kind)]
    for name in PERIODS:
        every = keys.value(name)
        spaced = type(every) is int and {after - before for before, after in pairwise(full)} == {every}
        if spaced or (isinstance(every, str) and traits.known):
            keys.ignore(name)


def mixes_all(kind: str) -> bool:
    """Whether a layer of this kind reads every earlier token."""
    return kind in ("full", "indexed", "hybrid")


def _spaced(keys: Keys, count: int) -> list[str] | None:
    """A period in a family that is not known: every so many layers one is full, the rest recur or have the window."""
    window = "sliding" if keys.truth("sliding_window") else None
    state = "recurrent" if any(name.startswith(("linear_", "mamba_", "ssm_")) for name in keys.names()) else None
    rest = {"full_attention_interval": state or window, "layer_group_size": state, "attn_layer_period": state}
    for name in PERIODS:
        other = rest.get(name, window)
        if other and type(keys.value(name)) is int:
            every = keys.need(name, most=4096)
            last = keys.count("attn_layer_offset") if name == "attn_layer_period" else every - 1
            return ["full" if layer % every == last else other for layer in range(count)]
    return None
