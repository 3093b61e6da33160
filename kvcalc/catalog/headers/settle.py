"""A config beside its checkpoint's headers: confirmed, corrected where it was in doubt, or contradicted.

The shapes of the matrices that make keys and values are compared layer by layer, and the bytes of all tensors with what
the config explains. Headers win: a config can be read wrongly, a shape cannot.
"""

import re
from collections.abc import Iterator, Mapping

from kvcalc.catalog.headers.projections import NAMES, Rows
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.model import Attention, LayerGroup, Mixer, ModelSpec, Tensor

TOLERANCE = 0.005  # of all bytes: padding of vocabularies, scales of formats that only nearly are the scheme's
# What tensors cannot show: which of the cached tokens are kept or read.
_BEHAVIOUR = re.compile(
    r"window|swa|local|global|chunk|sparse|top_?k|compress|stride|sink|memory|cache|pattern|yoco|types"
)
UNKNOWN = "architecture"  # the assumption that a model_type is not known


def settle(model: ModelSpec, rows: Rows, stored_bytes: int) -> tuple[ModelSpec, str | None]:
    """The model as its checkpoint has it, and what the checkpoint confirms, in words.

    Args:
        model: as read from the config.
        rows: of the matrices that make keys and values, by layer (empty: not read).
        stored_bytes: of all tensors.

    Raises:
        KvcalcError: a config that was understood and that the shapes contradict; both numbers are shown.
    """
    corrected, changes = _by_shapes(model, rows)
    compared = len({key.partition(".")[0] for key in _expected(corrected.groups) if key in rows})
    counted = {corrected.counted_bytes(), corrected.counted_bytes(drafts=False)}
    whole = any(abs(stored_bytes - one) <= TOLERANCE * stored_bytes for one in counted)
    partial = any("not counted" in assumption.why for assumption in model.assumptions)
    doubts = [doubt for doubt in model.doubts if not (whole and compared and not _BEHAVIOUR.search(doubt.name))]
    settled = {doubt.name for doubt in model.doubts} - {doubt.name for doubt in doubts}
    if not whole and not partial:
        why = f"it holds {stored_bytes:,} bytes, and the config explains {max(counted):,}: is it this model's config?"
        doubts.append(Assumption(name="checkpoint", value=None, why=why))
    listed = [_confirmed(one) if one.name in settled else one for one in model.assumptions]
    listed += [*changes, *(doubt for doubt in doubts if doubt not in model.doubts)]
    said = f"confirmed by the checkpoint's tensors: keys and values of {compared} layers" if compared else None
    if said and whole:
        said += ", and the sum of all tensors"
    return replace(corrected, assumptions=tuple(listed), doubts=tuple(doubts)), said


def _confirmed(doubt: Assumption) -> Assumption:
    said = "kvcalc does not know this key" if doubt.why.startswith("kvcalc does not know this key") else doubt.why
    return replace(doubt, why=f"{said}; the checkpoint's tensors agree with what was counted")


def _expected(groups: tuple[LayerGroup, ...]) -> dict[str, int]:
    """Rows that the config implies, by layer and matrix."""
    return {
        f"{layer}.{name}": tensor.shape[0]
        for group in groups
        for name, tensor in _projections(group).items()
        for layer in group.layers
    }


def _projections(group: LayerGroup) -> dict[str, Tensor]:
    """The matrices of a layer that make its keys and values; of attention to an encoder there are others."""
    found: dict[str, Tensor] = {}
    for tensor in group.tensors:
        name = tensor.module.rpartition(".")[2]
        beside = "cross" in tensor.name or "encoder" in tensor.name or "EncDec" in tensor.name
        if name in NAMES and tensor.name.endswith(".weight") and not beside:
            found.setdefault(name, tensor)
    return found


def _by_shapes(model: ModelSpec, rows: Rows) -> tuple[ModelSpec, list[Assumption]]:
    expected = _expected(model.groups)
    wrong = [key for key, want in expected.items() if key in rows and rows[key] != want]
    doubtful = bool(model.doubts) or any(assumption.name == UNKNOWN for assumption in model.assumptions)
    missing = doubtful and any(key not in rows for key in expected) and bool(expected.keys() & rows.keys())
    if not wrong and not missing:
        return model, []
    if not doubtful or any(key.endswith("kv_a_proj_with_mqa") for key in wrong):
        layer, _, name = wrong[0].partition(".")
        raise KvcalcError(
            f"{model.name}: {name} of layer {layer} has {rows[wrong[0]]} rows in the checkpoint, "
            f"and {expected[wrong[0]]} by its config",
            hint="is it this checkpoint's config? size the config.json by itself to leave the tensors aside",
        )
    groups = tuple(one for group in model.groups for one in _parted(model.name, group, rows))
    why = "corrected by the checkpoint's tensors: the shapes of k_proj and v_proj, layer by layer"
    return replace(model, groups=groups), [Assumption(name="keys and values", value=None, why=why)]


def _parted(name: str, group: LayerGroup, rows: Rows) -> Iterator[LayerGroup]:
    """A group by what its layers' matrices are in the checkpoint."""
    if not any(isinstance(mixer, Attention) for mixer in group.mixers) or not _projections(group):
        yield group
        return
    parts: dict[tuple[int | None, int | None], list[int]] = {}
    for layer in group.layers:
        parts.setdefault((rows.get(f"{layer}.k_proj"), rows.get(f"{layer}.v_proj")), []).append(layer)
    for (keys, values), layers in parts.items():
        mixers = tuple(_mixer(name, mixer, keys, values) for mixer in group.mixers)
        tensors = tuple(_tensors(group, {"k_proj": keys, "v_proj": values}))
        yield replace(group, layers=tuple(layers), mixers=mixers, tensors=tensors)


def _mixer(name: str, mixer: Mixer, keys: int | None, values: int | None) -> Mixer:
    """Attention of these rows: without keys of its own a layer reads another's cache."""
    if not isinstance(mixer, Attention):
        return mixer
    if keys is None:
        return replace(mixer, owns_cache=False)
    heads, left = divmod(keys, mixer.head_dim)
    if not heads or left or mixer.query_heads % heads:
        raise KvcalcError(
            f"{name}: k_proj has {keys} rows in the checkpoint, and its config says heads of {mixer.head_dim}",
            hint="is it this checkpoint's config? size the config.json by itself to leave the tensors aside",
        )
    return replace(mixer, kv_heads=heads, v_head_dim=mixer.v_head_dim if values is None else values // heads)


def _tensors(group: LayerGroup, rows: Mapping[str, int | None]) -> Iterator[Tensor]:
    """A layer's tensors with the rows of the checkpoint; those that it has not are left out."""
    ours = {tensor.name: name for name, tensor in _projections(group).items() if name in rows}
    for tensor in group.tensors:
        name = ours.get(tensor.name)
        if name is None:
            yield tensor
        elif (count := rows[name]) is not None:
            yield replace(tensor, shape=(count, *tensor.shape[1:]))
