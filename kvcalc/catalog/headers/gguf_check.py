"""A GGUF's metadata beside its tensors: one file says both, and where they disagree neither can be trusted."""

from collections.abc import Iterator, Mapping

from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Attention, LatentAttention, Mixer, Mlp, MoeMlp

Shapes = Mapping[str, tuple[int, ...]]


def refuse_contradictions(what: str, shapes: Shapes, mixers: tuple[Mixer, ...], mlp: Mlp | None, said: int) -> None:
    """Raise KvcalcError for the first tensor of a layer whose shape is not what the metadata makes of it.

    Args:
        what: the layer, for the message: "llama: layer 3".
        shapes: of its tensors as (outputs, inputs), by name without the layer.
        mixers, mlp: what was read of the metadata.
        said: the number of experts in the metadata; 0: it says none.
    """
    for name, rows, meaning in _rows(shapes, mixers):
        have = shapes[name][0]
        if have != rows:
            raise KvcalcError(
                f"{what}: {name} has {have} rows, and the file's metadata says {meaning}: {rows}",
                hint="the file contradicts itself: fetch it again, or give the model's config.json",
            )
    if isinstance(mlp, MoeMlp) and said and mlp.experts != said:
        raise KvcalcError(
            f"{what}: its tensors have {mlp.experts} experts, and the file's metadata says {said}",
            hint="the file contradicts itself: fetch it again, or give the model's config.json",
        )


def _rows(shapes: Shapes, mixers: tuple[Mixer, ...]) -> Iterator[tuple[str, int, str]]:
    """Tensors that make keys and values, the rows that they should have, and why."""
    for mixer in mixers:
        wanted: dict[str, tuple[int, str]] = {}
        if isinstance(mixer, LatentAttention):
            rank, rope = mixer.kv_lora_rank, mixer.rope_head_dim
            wanted = {"attn_kv_a_mqa.weight": (rank + rope, f"a latent of {rank} and {rope} rotated")}
        elif isinstance(mixer, Attention):
            heads, width, value = mixer.kv_heads, mixer.head_dim, mixer.v_head_dim
            both = f"{heads} key-value heads of"
            wanted = {
                "attn_k.weight": (heads * width, f"{both} {width}"),
                "attn_v.weight": (heads * value, f"{both} {value}"),
            }
            if len(mixers) == 1:
                rows = mixer.query_heads * width + heads * (width + value)
                wanted["attn_qkv.weight"] = (rows, f"{mixer.query_heads} heads and {both} {width}")
        for name, (rows, meaning) in wanted.items():
            if len(shapes.get(name, ())) == 2:
                yield name, rows, meaning
