"""GPU names and TOML files become GpuSpecs.

One file an accelerator, named as the spec. Other spellings are in `gpu_specs/aliases.toml`, so that one answer reads
two small files and not all of them.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvcalc.catalog.data import data_dir, read_toml
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GB

NOT_SPECS = {"aliases", "prices"}
LISTING = "`kvcalc gpus` lists them; a path to a TOML file works too"
_VENDOR_WORDS = {"nvidia", "amd", "intel", "geforce", "tesla", "instinct", "google", "cloud", "aws"}
_MEMORY_SUFFIX = re.compile(r"(.+?)[\s_-]+(\d{1,4}) ?(?:gb|gib|g)\s*", re.IGNORECASE)
_MEMORY_TOLERANCE = 0.08  # a B200 is sold as 180 and as 192 GB; an A100 of 40 is not one of 80


@cache
def gpu_names() -> list[str]:
    """Every accelerator of the catalog, sorted."""
    return sorted(path.stem for path in data_dir("gpu_specs").glob("*.toml") if path.stem not in NOT_SPECS)


def load_gpu(name_or_path: str) -> GpuSpec:
    """The spec of a name, an alias or a TOML file.

    Case, spaces, hyphens and underscores do not matter, nor does the vendor's name: `H100 SXM`, `h100_sxm` and
    `NVIDIA H100 SXM` are one. A memory size may follow and must then agree: `RTX 4090 24GB`.

    Raises:
        KvcalcError: unknown or ambiguous name; unreadable or malformed file, with the field.

    >>> load_gpu("H100 SXM").name
    'h100-sxm'
    """
    if _is_path(name_or_path):
        return gpu_from_toml(Path(name_or_path))
    return _named(_resolve(name_or_path)[0])


def gpu_assumption(name_or_path: str) -> Assumption | None:
    """What `load_gpu` took for granted: which board a bare product name (`H100`) stands for. None: nothing."""
    if _is_path(name_or_path):
        return None
    name, others = _resolve(name_or_path)
    if not others:
        return None
    why = f"{name_or_path!r} names several boards ({', '.join((name, *others))}); say which"
    return Assumption(name="gpu", value=name, why=why)


def all_gpus() -> tuple[GpuSpec, ...]:
    """Every spec of the catalog, by name."""
    return tuple(_named(name) for name in gpu_names())


def gpu_from_toml(path: Path) -> GpuSpec:
    """A spec from a file; every way in which it can be wrong is one KvcalcError with the file and the field."""
    try:
        return GpuSpec.model_validate(read_toml(path, "GPU spec"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])[:80] or "the file"
        known = ", ".join(GpuSpec.model_fields)
        hint = f"known fields: {known}" if first["type"] == "extra_forbidden" else f"correct {field} in that file"
        raise KvcalcError(f"GPU spec {path}: {field}: {_reason(first)}", hint=hint) from error


def _reason(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown field"
    if error["type"] == "missing":
        return "missing"
    return str(error["msg"])[:200].replace("Value error, ", "").replace("\n", " ")


@cache
def _named(name: str) -> GpuSpec:
    spec = gpu_from_toml(data_dir("gpu_specs") / f"{name}.toml")
    return spec.model_copy(update={"aliases": tuple(_aliases()["aliases"].get(name, ()))})


@cache
def _aliases() -> dict[str, dict[str, list[str]]]:
    return read_toml(data_dir("gpu_specs") / "aliases.toml", "GPU aliases")


@cache
def _spellings() -> dict[str, list[str]]:
    """Every spelling with the specs that it can mean; the first is the usual one."""
    tables = _aliases()
    names = {spelling(name): [name] for name in gpu_names()}
    aliases = {spelling(alias): [name] for name, known in tables["aliases"].items() for alias in known}
    several = {spelling(key): names for table in ("assumed", "ambiguous") for key, names in tables[table].items()}
    return several | aliases | names


def _is_path(text: str) -> bool:
    return text.endswith(".toml") or "/" in text or "\\" in text


def spelling(name: str) -> str:
    """A name without what does not matter: case, separators, the vendor.

    >>> spelling("NVIDIA GeForce RTX 4090"), spelling("h100_sxm")
    ('rtx4090', 'h100sxm')
    """
    words = re.split(r"[\s_\-()]+", name.strip().lower())
    return "".join(word for word in words if word not in _VENDOR_WORDS)


def _resolve(text: str) -> tuple[str, tuple[str, ...]]:
    """The spec's name, and the other boards that the text could mean."""
    shown, key = repr(text[:100]), spelling(text[:100])
    found = _spellings().get(key)
    if found is None and (match := _MEMORY_SUFFIX.fullmatch(text[:100])):
        if base := _spellings().get(spelling(match[1])):
            return _of_memory(shown, base, int(match[2]) * GB)
    if found is None:
        raise KvcalcError(f"unknown GPU {shown}", hint=did_you_mean(text, gpu_names(), LISTING))
    if key in map(spelling, _aliases()["ambiguous"]):
        raise KvcalcError(f"GPU {shown} is ambiguous: its boards differ in memory", hint=f"say {' or '.join(found)}")
    return found[0], tuple(found[1:])


def _of_memory(shown: str, names: list[str], size: int) -> tuple[str, tuple[str, ...]]:
    matching = [name for name in names if abs(size / _named(name).memory_bytes - 1) <= _MEMORY_TOLERANCE]
    if not matching:
        sizes = ", ".join(f"{name} ({_named(name).memory_bytes / GB:g} GB)" for name in names)
        raise KvcalcError(f"GPU {shown}: no such memory size", hint=f"the catalog has {sizes}")
    return matching[0], tuple(matching[1:])
