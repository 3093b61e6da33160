"""GPU names and TOML files become GpuSpecs.

One file an accelerator, named as the spec; other spellings in `gpu_specs/aliases.toml`. So one answer reads one or two
small files, not all of them.
"""

import re
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.checked import UNKNOWN_FIELD, first_mistake
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GB

NOT_SPECS = {"aliases", "prices"}
LISTING = "`kvcalc gpus` lists them; a path to a TOML file works too"
_NOISE = {"nvidia", "amd", "intel", "geforce", "tesla", "instinct", "google", "cloud", "aws", "r", "tm", "class"}
# Compiled where they are needed: most names are found as they are.
_MEMORY_SUFFIX = r"(?i)(.+?)[\s_-]+(\d{1,4}) ?(?:gb|gib|g)\s*(?:\([^)]*\)|class)?\s*"
_COUNT = r"\s*(?:(\d{1,4})\s*[x×*]\s*(.+)|(.+?)\s+[x×*]\s?(\d{1,4}))\s*"  # 8x L4, L4 x8
_SIZE_ALONE = r"(?i)\s*(\d{1,4}) ?(?:gb|gib|g)(?:[\s_-]*(?:class|gpu|card|vram))*\s*"
_MEMORY_TOLERANCE = 0.08  # a B200 is sold as 180 and as 192 GB; an A100 of 40 is not one of 80


@cache
def gpu_names() -> tuple[str, ...]:
    """Every accelerator of the catalog, sorted."""
    return tuple(sorted(path.stem for path in data_dir("gpu_specs").glob("*.toml") if path.stem not in NOT_SPECS))


def load_gpu(name_or_path: str) -> GpuSpec:
    """The spec of a name, an alias or a TOML file.

    Case, spaces, hyphens and underscores do not matter, nor does the vendor's name: `H100 SXM`, `h100_sxm` and
    `NVIDIA H100 SXM` are one. A memory size may follow and must then agree: `RTX 4090 24GB`. The bare name of a product
    with several boards (`H100`) gives the usual one, with an assumption in the spec.

    Raises:
        KvcalcError: unknown or ambiguous name; unreadable or malformed file, with the field.

    >>> load_gpu("H100 SXM").name
    'h100-sxm'
    """
    if _is_path(name_or_path):
        return gpu_from_toml(Path(name_or_path))
    name, *others = _meant(name_or_path)
    if not others:
        return _named(name)
    why = f"{name_or_path!r} may also be {' or '.join(others)}; name the board to be sure"
    return replace(_named(name), assumptions=(Assumption(name="gpu", value=name, why=why),))


def all_gpus() -> tuple[GpuSpec, ...]:
    """Every spec of the catalog, by name."""
    return tuple(_named(name) for name in gpu_names())


def gpu_from_toml(path: Path) -> GpuSpec:
    """A spec from a file.

    Raises:
        KvcalcError: with the file and the first field that is wrong.
    """
    try:
        return GpuSpec.model_validate(read_toml(path, "GPU spec"))
    except ValidationError as error:
        field, why = first_mistake(error)
        known = f"its fields are {', '.join(GpuSpec.model_fields)}"
        hint = known if why == UNKNOWN_FIELD else "see docs/reference/gpus.md for the form of a GPU spec"
        raise KvcalcError(f"GPU spec {path}: {field or 'the file'}: {why}", hint=hint) from error


@cache
def _named(name: str) -> GpuSpec:
    return gpu_from_toml(data_dir("gpu_specs") / f"{name}.toml")


def aliases_of(gpu: GpuSpec) -> tuple[str, ...]:
    """Other spellings of a GPU's name: its own file's, and the catalog's."""
    return (*gpu.aliases, *_aliases()["aliases"].get(gpu.name, ()))


@cache
def _aliases() -> dict[str, dict[str, list[str]]]:
    return read_toml(data_dir("gpu_specs") / "aliases.toml", "GPU aliases")


@cache
def _spellings() -> dict[str, tuple[str, ...]]:
    """Every spelling with the specs that it can mean; the first is the one to take."""
    tables = _aliases()
    several = tables["assumed"] | tables["ambiguous"]
    return (
        {spelling(key): tuple(names) for key, names in several.items()}
        | {spelling(alias): (name,) for name, aliases in tables["aliases"].items() for alias in aliases}
        | {spelling(name): (name,) for name in gpu_names()}
    )


def _is_path(text: str) -> bool:
    if text.endswith(".toml") or text.startswith((".", "/", "~")) or "\\" in text:
        return True
    return "/" in text and Path(text).exists()  # else two names: H100/H200


def spelling(name: str) -> str:
    """A name without what does not matter: case, separators, the vendor.

    >>> spelling("NVIDIA GeForce RTX 4090"), spelling("h100_sxm")
    ('rtx4090', 'h100sxm')
    """
    words = re.split(r"[\s_\-()]+", name.strip().lower())
    return "".join(word for word in words if word not in _NOISE)


def _meant(text: str) -> tuple[str, ...]:
    """The specs that a text can mean, the one to take first."""
    if text in gpu_names():
        return (text,)
    text = text[:100]
    found = _spellings().get(spelling(text))
    if found:
        if spelling(text) in map(spelling, _aliases()["ambiguous"]):
            raise KvcalcError(f"GPU {text!r}: its boards differ in memory", hint=f"say {' or '.join(found)}")
        return found
    sized = re.fullmatch(_MEMORY_SUFFIX, text)
    found = _spellings().get(spelling(sized[1])) if sized else None
    if not sized or not found:
        raise KvcalcError(f"unknown GPU {text!r}", hint=_hint(text))
    matching = tuple(name for name in found if _is_near(int(sized[2]) * GB, _named(name).memory_bytes))
    if not matching:
        sizes = ", ".join(f"{name} ({_named(name).memory_bytes / GB:g} GB)" for name in found)
        raise KvcalcError(f"GPU {text!r}: no such memory size", hint=f"the catalog has {sizes}")
    return matching


def _hint(text: str) -> str:
    """Several GPUs, a size without a name, or a name that is close to one."""
    counted = re.fullmatch(_COUNT, text)
    one = (counted[2] or counted[3]) if counted else text
    if counted and (found := _spellings().get(spelling(one))):
        return f"say {' or '.join(found)}; how many follows from --tensor-parallel-size, -pp and -dp"
    sized = re.fullmatch(_SIZE_ALONE, one)
    if sized:
        near = [name for name in gpu_names() if _is_near(int(sized[1]) * GB, _named(name).memory_bytes)]
        if near:
            return f"which of them? {', '.join(near)}"
    products = (name.lower() for name in _aliases()["assumed"])
    return did_you_mean(re.sub(r"[\s_]+", "-", text), [*gpu_names(), *products], LISTING)


def _is_near(stated: int, nameplate: int) -> bool:
    return abs(stated / nameplate - 1) <= _MEMORY_TOLERANCE
