"""Layers that read an earlier layer's cache, and layers that read what an earlier layer's indexer chose."""

from collections.abc import Sequence

from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError


def owners(keys: Keys, kinds: Sequence[str]) -> list[bool]:
    """Whether each layer keeps keys and values of its own."""
    count = len(kinds)
    shared = keys.count("num_kv_shared_layers")
    if shared >= count > 0 and shared:
        raise KvcalcError(
            f"{keys.path('num_kv_shared_layers')} is {shared} of {count} layers", hint="some layer must keep a cache"
        )
    if keys.flag("use_cla"):  # Hunyuan-Large: the first of every so many layers keeps it for all of them
        factor = keys.integer("cla_share_factor") or 1
        if factor == 1:
            keys.doubt("use_cla", "cla_share_factor does not say how many layers share a cache: none is taken to")
        return [layer % factor == 0 for layer in range(count)]
    sources = keys.integers("kv_source_layers")
    if sources is not None:
        return [layer >= len(sources) or sources[layer] == layer for layer in range(count)]
    return [layer < count - shared for layer in range(count)]


def indexers(keys: Keys, count: int) -> list[bool]:
    """Whether each layer has an indexer of its own, where sparse attention has one."""
    listed = keys.texts("indexer_types")
    if listed is None:
        pattern = keys.raw("index_topk_pattern")
        if isinstance(pattern, str):
            listed = [{"F": "full", "S": "shared"}.get(letter, letter) for letter in pattern]
        elif pattern is not None:
            listed = keys.texts("index_topk_pattern")
    if listed is not None:
        keys.ignore("index_topk_freq", "index_skip_topk_offset", "index_topk_pattern")
        for name in listed:
            if name not in ("full", "shared"):
                raise KvcalcError(
                    f"{keys.path('indexer_types')} names a kind that kvcalc does not know: {name[:40]!r}",
                    hint="known: full, shared",
                )
        return [layer >= len(listed) or listed[layer] == "full" for layer in range(count)]
    every = keys.integer("index_topk_freq", default=1) or 1
    offset = keys.count("index_skip_topk_offset", default=2)
    return [max(layer - offset + 1, 0) % every == 0 for layer in range(count)]
