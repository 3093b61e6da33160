"""The rotary table that engines keep beside the weights: cosines and sines of every position."""

from collections.abc import Iterable, Mapping

from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.model import Attention, CompressedAttention, LatentAttention, LayerGroup

ROTATES = (
    *("rope_theta", "rope_parameters", "rope_scaling", "rotary_emb_base", "rotary_dim"),
    *("rotary_pct", "partial_rotary_factor", "global_rope_theta", "qk_rope_head_dim"),
)
# Layers with another base have a table of their own.
SECOND_BASE = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")


def rotary_width(keys: Keys, groups: Iterable[LayerGroup]) -> int:
    """Elements of the tables for one position, all tables together; 0 without rotary embeddings.

    Args:
        keys: of the text decoder, with its class's defaults: a class that rotates declares a rotary key.
        groups: the layers, for the width of a head.
    """
    if not any(keys.known_to_say(name) for name in ROTATES) or keys.truth("alibi"):
        return 0
    widths = {_head_width(mixer) for group in groups for mixer in group.mixers}
    widest = max(widths, default=0)
    if not widest:
        return 0
    nested = keys.child("rope_parameters")
    by_kind = [] if nested is None else [name for name in nested.names() if isinstance(nested.raw(name), Mapping)]
    tables = max(len(by_kind), 1 + any(keys.has(name) for name in SECOND_BASE))
    return tables * _rotated(keys, widest)


def _head_width(mixer: object) -> int:
    if isinstance(mixer, LatentAttention | CompressedAttention):
        return mixer.rope_head_dim
    return mixer.head_dim if isinstance(mixer, Attention) else 0


def _rotated(keys: Keys, head: int) -> int:
    """The part of a head that turns: a width, a share, or all of it."""
    width = keys.integer("rotary_dim")
    if width is not None:
        return min(width, head)
    nested = keys.child("rope_parameters")
    share = keys.number("partial_rotary_factor", "rotary_pct", most=1)
    if share is None and nested is not None and nested.has("partial_rotary_factor"):
        share = nested.number("partial_rotary_factor", most=1)
    return head if share is None or keys.has("qk_rope_head_dim") else int(head * share)
