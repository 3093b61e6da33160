"""The same model with another cache: what each trick of its architecture saves.

The weights are left alone: these answer "what would the cache cost", not "what would the model be".
"""

from collections.abc import Callable

from kvcalc.specs.base import replace
from kvcalc.specs.model import Attention, CompressedAttention, LatentAttention, LayerGroup, Mixer, ModelSpec


def with_mixers(model: ModelSpec, change: Callable[[Mixer], Mixer]) -> ModelSpec:
    """The model with every mixer of its text decoder changed."""

    def changed(group: LayerGroup) -> LayerGroup:
        return replace(group, mixers=tuple(change(mixer) for mixer in group.mixers))

    return replace(model, groups=tuple(changed(group) for group in model.groups))


def _as_many_kv_heads(mixer: Mixer) -> Mixer:
    if isinstance(mixer, Attention) and mixer.kv_heads < mixer.query_heads:
        return replace(mixer, kv_heads=mixer.query_heads)
    return mixer


def _full_heads(mixer: Mixer) -> Mixer:
    if not isinstance(mixer, LatentAttention):
        return mixer
    return Attention(
        query_heads=mixer.query_heads,
        kv_heads=mixer.query_heads,
        head_dim=mixer.nope_head_dim + mixer.rope_head_dim,
        v_head_dim=mixer.v_head_dim,
        indexer=mixer.indexer,
    )


def _without_window(mixer: Mixer) -> Mixer:
    if isinstance(mixer, Attention) and mixer.window is not None:
        return replace(mixer, window=None, chunked=False)
    return mixer


def _own_cache(mixer: Mixer) -> Mixer:
    if isinstance(mixer, Attention) and not mixer.owns_cache:
        return replace(mixer, owns_cache=True)
    return mixer


def _uncompressed(mixer: Mixer) -> Mixer:
    if not isinstance(mixer, CompressedAttention):
        return mixer
    return Attention(query_heads=mixer.query_heads, kv_heads=1, head_dim=mixer.head_dim, v_head_dim=mixer.head_dim)


CHANGES: tuple[tuple[str, Callable[[Mixer], Mixer]], ...] = (
    ("a KV head per query head, MHA", _as_many_kv_heads),
    ("full heads instead of the latent", _full_heads),
    ("no window", _without_window),
    ("no shared cache", _own_cache),
    ("no compression of the history", _uncompressed),
)


def architecture_variants(model: ModelSpec) -> tuple[tuple[str, ModelSpec], ...]:
    """The changes that make a difference to this model, each with its name."""
    found = ((name, with_mixers(model, change)) for name, change in CHANGES)
    return tuple((name, other) for name, other in found if other.groups != model.groups)
