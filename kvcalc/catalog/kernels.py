"""A GPU's measured kernels: its own, or those of the GPU that it is most like."""

from functools import cache
from typing import Any

from pydantic import ValidationError

from kvcalc.catalog.data import data_dir, read_toml
from kvcalc.errors import KvcalcError
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import Kernels, Measured

GENERIC = "generic"
# Rows with equal values of these fields say the same thing; a nearer file's row wins.
KEYS = {
    "gemm": ("dtype",),
    "attention": ("dtype", "library"),
    "latent_attention": ("dtype",),
    "prefill_attention": ("dtype",),
    "experts": ("dtype", "kernel"),
    "all_reduce": ("library", "gpus"),
}


def load_kernels(gpu: GpuSpec) -> Kernels:
    """The kernel constants of a GPU, complete: what it lacks is filled from GPUs like it, then from the generic rows.

    `like` of the result names whose constants they are where the GPU has none of its own; None where it has.

    Raises:
        KvcalcError: a data file is malformed.
    """
    own = _file(gpu.name)
    similar = None if own else _similar(gpu)
    chain = [gpu.kernels, own, _file(similar) if similar else None, _file(GENERIC)]
    like = None if own or gpu.kernels else similar or GENERIC
    return _merged([one for one in chain if one is not None]).model_copy(update={"like": like})


@cache
def _file(name: str) -> Kernels | None:
    path = data_dir("gpu_specs") / "kernels" / f"{name}.toml"
    if not path.is_file():
        return None
    try:
        return Kernels.model_validate(read_toml(path, "GPU kernels"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:80]
        raise KvcalcError(f"GPU kernels {path}: {where}: {first['msg']}", hint="correct it in that file") from error


@cache
def _classes() -> list[dict[str, Any]]:
    table = read_toml(data_dir("gpu_specs") / "kernels" / "classes.toml", "GPU classes")
    return list(table["class"])


def _similar(gpu: GpuSpec) -> str | None:
    """The measured GPU of the same kind: named outright, else of the same compute capability."""
    for one in _classes():
        if gpu.name in one.get("gpus", ()):
            return str(one["like"])
    for one in _classes():
        if gpu.compute_capability in one.get("compute_capability", ()):
            return str(one["like"])
    return None


def _merged(chain: list[Kernels]) -> Kernels:
    """The first of the chain, completed by the others' rows and values for what it lacks."""
    first, *others = chain
    for other in others:
        changes: dict[str, object] = {}
        for field, keys in KEYS.items():
            mine: tuple[Measured, ...] = getattr(first, field)
            known = {tuple(getattr(row, key) for key in keys) for row in mine}
            more = [row for row in getattr(other, field) if tuple(getattr(row, key) for key in keys) not in known]
            changes[field] = (*mine, *more)
        for field in ("elementwise_share", "weight_only_share", "experts_flops_share"):
            changes[field] = getattr(first, field) or getattr(other, field)
        first = first.model_copy(update=changes)
    return first
