"""Parameters: sums over tensors, by category and by what one token meets. Buffers are bytes, not parameters.

Unit: parameters
Source: exact counting of what the checkpoint's tensors hold; what one token meets: Shazeer et al. 2017, section 2
"""

from collections.abc import Iterable

from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp, Tensor


def _sum(tensors: Iterable[Tensor]) -> int:
    """Buffers are stored with the weights, and are no parameters."""
    return sum(tensor.parameters for tensor in tensors if not tensor.buffer)


def _layers(groups: Iterable[LayerGroup]) -> int:
    return sum(group.count * _sum(group.tensors) for group in groups)


def total_parameters(model: ModelSpec) -> int:
    """All parameters of the model and its towers; multi-token-prediction layers apart (`mtp_parameters`)."""
    towers = sum(_sum(tower.tensors) for tower in model.towers)
    return _layers(model.groups) + _sum(model.tensors) + towers


def mtp_parameters(model: ModelSpec) -> int:
    """Parameters of the multi-token-prediction layers: in the file, idle without speculation."""
    return _layers(model.mtp)


def parameters_by_category(model: ModelSpec) -> dict[str, int]:
    """The same total, by what the parameters are for."""
    found: dict[str, int] = {}
    counted = [(tensor, group.count) for group in model.groups for tensor in group.tensors]
    counted += [(tensor, 1) for tensor in model.tensors]
    counted += [(tensor, 1) for tower in model.towers for tensor in tower.tensors]
    for tensor, count in counted:
        if not tensor.buffer:
            found[tensor.category] = found.get(tensor.category, 0) + count * tensor.parameters
    return found


def active_parameters(model: ModelSpec) -> int:
    """Parameters of the text model that one token meets: of the routed experts, the top k; embedding and head counted.

    Towers are left out: a text token never meets them.
    """
    return _sum(model.tensors) + sum(group.count * _active_of_layer(group) for group in model.groups)


def _active_of_layer(group: LayerGroup) -> int:
    return sum(_active_of_tensor(tensor, group) for tensor in group.tensors if not tensor.buffer)


def _active_of_tensor(tensor: Tensor, group: LayerGroup) -> int:
    """Of a tensor that every expert has one of, the chosen experts' share; what experts have in common counts whole."""
    mlp = group.mlp
    if not isinstance(mlp, MoeMlp) or tensor.category != "experts" or tensor.copies != mlp.experts:
        return tensor.parameters
    return tensor.parameters // mlp.experts * mlp.top_k
