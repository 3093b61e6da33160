"""A GPU's measured kernels: its own, or those of the GPU that it is most like."""

from functools import cache
from typing import Any

from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.catalog.ggml import ggml_kernels as ggml_kernels
from kvcalc.catalog.ggml import host_bandwidth as host_bandwidth
from kvcalc.catalog.ggml import local_parts as local_parts
from kvcalc.catalog.ggml import local_setting as local_setting
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import Kernels, Measured

GENERIC = "generic"
VALUES = (
    "elementwise_share", "sustained_share", "tiled_share", "tiled_token_s", "index_s", "weight_only_share",
    "experts_flops_share",
)  # fmt: skip
ANY = "any"
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

    Args:
        gpu: the spec; kernels of its own (a user's, measured) come before any file's.

    `like` of the result names whose constants they are where the GPU has none of its own; None where it has.

    Raises:
        KvcalcError: a data file is malformed.
    """
    known = _chain(gpu.name, similar(gpu))
    return known if gpu.kernels is None else replace(_merged([gpu.kernels, known]), like=None)


@cache
def _chain(own: str, other: str | None) -> Kernels:
    """A GPU's own file, completed by that of the one that it is like, and by the generic rows."""
    mine = _file(own)
    files = [mine, _file(other) if other and other != own else None, _file(GENERIC)]
    like = None if mine else other or GENERIC
    return replace(_merged([one for one in files if one is not None]), like=like)


@cache
def _file(name: str) -> Kernels | None:
    path = data_dir("gpu_specs") / "kernels" / f"{name}.toml"
    return build(Kernels, read_toml(path, "GPU kernels")) if path.is_file() else None


@cache
def _classes() -> list[dict[str, Any]]:
    table = read_toml(data_dir("gpu_specs") / "kernels" / "classes.toml", "GPU classes")
    return list(table["class"])


def similar(gpu: GpuSpec) -> str | None:
    """Whose kernels a GPU runs like: the first class that it belongs to."""
    return next((str(one["like"]) for one in _classes() if _belongs(gpu, one)), None)


def _belongs(gpu: GpuSpec, one: dict[str, Any]) -> bool:
    by_name = gpu.name in one.get("gpus", (gpu.name,))
    by_chip = gpu.compute_capability in one.get("compute_capability", (gpu.compute_capability,))
    by_line = one.get("line", "") in gpu.title
    return by_name and by_chip and by_line and one.get("vendor", gpu.vendor) == gpu.vendor


def _merged(chain: list[Kernels]) -> Kernels:
    """The first of the chain, completed by the others' rows and values for what it lacks."""
    first, *others = chain
    for other in others:
        changes: dict[str, Any] = {}
        for field, keys in KEYS.items():
            mine: tuple[Measured, ...] = getattr(first, field)
            known = {_key(row, keys) for row in mine}
            more = [row for row in getattr(other, field) if known.isdisjoint((_key(row, keys), _whatever(row, keys)))]
            changes[field] = (*mine, *more)
        for field in VALUES:
            changes[field] = getattr(first, field) or getattr(other, field)
        first = replace(first, **changes)
    return first


def _key(row: Measured, keys: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(getattr(row, key) for key in keys)


def _whatever(row: Measured, keys: tuple[str, ...]) -> tuple[object, ...]:
    """The key of a nearer row that holds for every library, and so stands for this one too."""
    return tuple(ANY if key == "library" else getattr(row, key) for key in keys)


def forget_files() -> None:
    """Read the data files anew: they were written since."""
    _file.cache_clear()
    _chain.cache_clear()
    _classes.cache_clear()
