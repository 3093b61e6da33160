"""Small models built by hand, with the dimensions of public configs."""

from kvcalc.specs.model import Attention, LayerGroup, Mixer, ModelSpec


def model(*groups: tuple[int, Mixer], max_context: int = 8192, **more: object) -> ModelSpec:
    """Groups of (number of layers, mixer), in order."""
    start, found = 0, []
    for count, mixer in groups:
        found.append(LayerGroup(layers=tuple(range(start, start + count)), mixers=(mixer,)))
        start += count
    fields: dict[str, object] = {"name": "test", "family": "test", "hidden": 4096, "vocab": 128256} | more
    return ModelSpec(groups=tuple(found), max_context=max_context, **fields)


def gqa(kv_heads: int, head_dim: int, query_heads: int = 32, window: int | None = None) -> Attention:
    return Attention(query_heads=query_heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, window=window)


LLAMA_3_8B = model((32, gqa(8, 128)))
