"""Multi-token-prediction layers: one more decoder layer each, with what joins it to the model.

They are in the checkpoint whether or not an engine drafts with them, so they are counted apart.
"""

from kvcalc.catalog.config.families.decoder import layer_group
from kvcalc.catalog.config.families.kind_lists import MOST_MTP, MTP_COUNT
from kvcalc.catalog.config.families.kinds import extra_kinds
from kvcalc.catalog.config.families.plan import layer_count, mixer_of, read_plan
from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.tensors import linear, norm
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.base import replace
from kvcalc.specs.model import LayerGroup, Tensor


def read_mtp(keys: Keys, traits: Traits, hidden: int, vocab: int) -> tuple[LayerGroup, ...]:
    """One group for each kind of MTP layer; none where the config has none."""
    count = keys.count(*MTP_COUNT, most=MOST_MTP)
    if not count or not keys.given(*MTP_COUNT):  # a class's default says nothing of a checkpoint
        return ()
    own = replace(traits, layers=traits.mtp_layers)
    first = layer_count(keys, traits) if traits.mtp_layers == traits.layers else 0
    kinds = _layers(keys, traits, count)
    groups = [layer_group(keys, own, hidden, layer, places) for layer, places in _placed(kinds, first).items()]
    joint = _joint(traits, hidden, vocab)
    last = groups[-1]
    return (*groups[:-1], replace(last, tensors=(*last.tensors, *joint)))


def _placed(layers: list[Layer], first: int) -> dict[Layer, list[int]]:
    where: dict[Layer, list[int]] = {}
    for index, layer in enumerate(layers):
        where.setdefault(layer, []).append(first + index)
    return where


def _layers(keys: Keys, traits: Traits, count: int) -> list[Layer]:
    """What each is made of: as lists go on after the decoder's layers, else as the decoder's last full layer."""
    plan = read_plan(keys, traits)
    model = next((layer for layer in reversed(plan) if layer.mixer not in ("none", "sliding")), plan[-1])
    model = replace(model, owns_index=True, owns_cache=True)
    kinds = extra_kinds(keys, len(plan))
    if traits.bare:
        names = kinds or ["full", "moe"]
        mlps = {"moe": "moe", "mlp": "dense"}
        return [Layer(mixer=mixer_of(kind), mlp=mlps.get(kind, "none")) for kind in names for _ in range(count)]
    if traits.mtp_dense:
        model = replace(model, mlp="dense")
    if not kinds:
        return [model] * count
    return [replace(model, mixer=mixer_of(kinds[index % len(kinds)])) for index in range(count)]


def _joint(traits: Traits, hidden: int, vocab: int) -> list[Tensor]:
    """The projection of embedding and hidden state into the layer, their norms; in some checkpoints its own head."""
    found = linear("eh_proj", hidden, 2 * hidden, "other", "whole")
    found += norm("enorm", traits.norm, hidden) + norm("hnorm", traits.norm, hidden)
    found += norm("shared_head.norm", traits.norm, hidden)
    if traits.mtp_head:
        found.append(Tensor(name="embed_tokens.weight", shape=(vocab, hidden), category="embedding", split="vocab"))
        found += linear("shared_head.head", vocab, hidden, "head", "vocab")
    return found
