"""Real weights: safetensors of a folder, read tensor by tensor into the fused matrices."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvcalc.catalog.files.jsonfile import read_json
from kvcalc.errors import KvcalcError
from kvcalc.executor.linear import Linear
from kvcalc.executor.numerics import Numerics, numerics_of
from kvcalc.executor.shape import Shape
from kvcalc.executor.weights import Layer, Weights, empty_weights

if TYPE_CHECKING:
    import torch

IGNORED = ("rotary_emb.inv_freq",)  # older checkpoints keep the table that we compute


def load_weights(
    folder: Path, shape: Shape, dtype: "torch.dtype", device: "torch.device", whole: bool = True
) -> tuple[Weights, Numerics]:
    """The weights of a folder with config.json and *.safetensors.

    Args:
        whole: False where layers were cut off: tensors of further layers are then passed over.

    Raises:
        KvcalcError: a file, a tensor or a size that does not fit the model.
    """
    from safetensors import SafetensorError, safe_open

    numerics = numerics_of(read_json(folder / "config.json", "config"))
    files = weight_files(folder)
    weights = empty_weights(shape, dtype, device)
    places = _places(weights)
    missing = set(places)
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118, it is no dict
                    if name in places:
                        _fill(places[name], file.get_tensor(name), name, path)
                        missing.discard(name)
                    elif whole and not (name.endswith(IGNORED) or (shape.tied and name == "lm_head.weight")):
                        raise KvcalcError(f"{path} has {name}, which the model has not", hint="is MODEL its config?")
        except (SafetensorError, OSError) as error:
            raise KvcalcError(f"cannot read {path}: {error}", hint="fetch it again") from error
    if missing:
        raise KvcalcError(f"{folder} lacks {len(missing)} tensors, as {min(missing)}", hint="fetch it again")
    return weights, numerics


def weight_files(folder: Path) -> list[Path]:
    """The files of the checkpoint: those of its index, else model*.safetensors, else all.

    Beside them may stand the same weights in one piece by other names (`consolidated.safetensors`).

    Raises:
        KvcalcError: there are none, or an index that names none.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = read_json(index, "index").get("weight_map")
        if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
            raise KvcalcError(f"{index} has no weight_map of file names", hint="fetch it again")
        return sorted({folder / Path(name).name for name in named.values()})
    found = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    if not found:
        raise KvcalcError(f"--weights: no *.safetensors in {folder}", hint="give the folder of a downloaded model")
    return found


def _fill(place: "torch.Tensor", found: "torch.Tensor", name: str, path: Path) -> None:
    if place.shape != found.shape:
        sizes = f"{tuple(found.shape)} and not {tuple(place.shape)}"
        raise KvcalcError(f"{path}: {name} is {sizes}", hint="is MODEL the config of these weights?")
    place.copy_(found)


def _places(weights: Weights) -> dict[str, Any]:
    """Each tensor's name in a checkpoint → the part of our tensors that holds it."""
    shape = weights.shape
    found = {"model.embed_tokens.weight": weights.embedding, "model.norm.weight": weights.final_norm}
    if not shape.tied:
        found["lm_head.weight"] = weights.head.weight
    for index, layer in enumerate(weights.layers):
        found |= {f"model.layers.{index}.{name}": place for name, place in _layer(layer, shape).items()}
    return found


def _layer(layer: Layer, shape: Shape) -> dict[str, Any]:
    found = {"input_layernorm.weight": layer.input_norm, "post_attention_layernorm.weight": layer.post_norm}
    if layer.qk_norms is not None:
        found |= {f"self_attn.{name}_norm.weight": norm for name, norm in zip("qk", layer.qk_norms, strict=True)}
    found |= _parts(layer.o, {"self_attn.o_proj": shape.hidden})
    found |= _parts(layer.down, {"mlp.down_proj": shape.hidden})
    found |= _parts(layer.gate_up, {"mlp.gate_proj": shape.width, "mlp.up_proj": shape.width})
    widths = {"q": shape.q_width, "k": shape.kv_width, "v": shape.kv_width}
    return found | _parts(layer.qkv, {f"self_attn.{name}_proj": width for name, width in widths.items()})


def _parts(linear: Linear, outputs: dict[str, int]) -> dict[str, Any]:
    """The rows of a fused matrix, and of its bias, by the projection that they are."""
    start, found = 0, {}
    for name, rows in outputs.items():
        found[f"{name}.weight"] = linear.weight[start : start + rows]
        if linear.bias is not None:
            found[f"{name}.bias"] = linear.bias[start : start + rows]
        start += rows
    return found
