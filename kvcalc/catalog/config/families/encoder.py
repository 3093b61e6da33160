"""The encoder of an encoder-decoder model: built like a decoder, kept as a tower, without a cache."""

from kvcalc.catalog.config.families.decoder import read_groups, view
from kvcalc.catalog.config.families.extras import extra_tensors
from kvcalc.catalog.config.families.outside import position_table
from kvcalc.catalog.config.families.table import traits_of
from kvcalc.catalog.config.families.tensors import norm
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.base import replace
from kvcalc.specs.model import DenseMlp, Tensor, Tower


def read_encoder(keys: Keys, traits: Traits, hidden: int, vocab: int) -> Tower:
    """All its tensors; `keys` are the model's (or the encoder's own, where the config nests one)."""
    own = traits_of(traits.encoder)
    keys = view(keys, traits, traits.encoder_keys)
    groups = read_groups(keys, own, hidden)
    tensors: list[Tensor] = []
    if own.embedding:
        tensors.append(
            Tensor(name=f"{own.embedding}.weight", shape=(vocab, hidden), category="embedding", split="vocab")
        )
    tensors += position_table(keys, own, hidden)
    if own.final_norm:
        tensors += norm(own.final_norm, own.norm, hidden)
    tensors += extra_tensors(keys, own, ("model",), {"hidden": hidden, "vocab": vocab})
    for group in groups:
        tensors += [
            replace(tensor, name=f"{group.prefix}.0.{tensor.name}", copies=tensor.copies * group.count)
            for tensor in group.tensors
        ]
    mlp = groups[0].mlp
    return Tower(
        name="encoder",
        kind="encoder",
        hidden=hidden,
        width=mlp.width if isinstance(mlp, DenseMlp) else None,
        layers=sum(group.count for group in groups),
        tensors=tuple(tensors),
    )
