"""GPU names and TOML files become GpuSpecs.

One file an accelerator, named as the spec; other spellings in `gpu_specs/aliases.toml`. So one answer reads one or two
small files, not all of them.
"""

import re
from functools import cache
from pathlib import Path

from kvcalc.catalog import spellings
from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.catalog.gpu_faults import faults
from kvcalc.catalog.names import did_you_mean
from kvcalc.catalog.spellings import Meaning, is_near
from kvcalc.catalog.spellings import gpu_names as gpu_names
from kvcalc.catalog.split import is_split, split_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, field_names, replace
from kvcalc.specs.build import build
from kvcalc.specs.from_file import UNKNOWN_FIELD, Mistake, from_file
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GB

LISTING = "`kvcalc gpus` lists them; a path to a TOML file works too"
# Compiled where they are needed: most names are found as they are.
_COUNT = r"\s*(?:(\d{1,4})\s*[x×*]\s*(.+)|(.+?)\s+[x×*]\s?(\d{1,4}))\s*"  # 8x L4, L4 x8
_SIZE_ALONE = r"(?i)\s*(\d{1,4}) ?(?:gb|gib|g)(?:[\s_-]*(?:class|gpu|card|vram))*\s*"
_MOST_HINTED = 12
_IN_SERVERS = '"data-center"'  # what the file of such a card has in it


def load_gpu(name_or_path: str) -> GpuSpec:
    """The spec of a name, an alias or a TOML file.

    Case, spaces, hyphens and underscores do not matter, nor does the vendor's name or a product line in front: `5090`,
    `rtx_5090` and `NVIDIA GeForce RTX 5090` are one. A memory size and a count of cores may follow and must then be
    those of a board: `RTX 4090 24GB`, `M3 Max 64GB`. The bare name of a product with several boards (`H100`, `M3 Max`)
    gives the usual one, with an assumption in the spec. A cloud's machine (`p5.48xlarge`) gives its accelerator with
    the machine's node and network. Unequal cards of one host (`rtx3090+rtx3060`) are one device, for llama.cpp.

    Raises:
        KvcalcError: unknown or ambiguous name; unreadable or malformed file, with the field.

    >>> load_gpu("H100 SXM").name, load_gpu("m3 max 64gb").name
    ('h100-sxm', 'apple-m3-max-40c-64g')
    """
    if _is_path(name_or_path):
        return gpu_from_toml(Path(name_or_path))
    if _is_joint(name_or_path):
        return split_of(name_or_path, load_gpu)
    meant = _meant(name_or_path)
    if isinstance(meant, GpuSpec):
        return meant
    name, others = meant
    if not others:
        return _named(name)
    why = f"{name_or_path!r} may also be {_either(others)}; name the board to be sure"
    return replace(_named(name), assumptions=(Assumption(name="gpu", value=name, why=why),))


def other_boards(name_or_path: str) -> tuple[GpuSpec, ...]:
    """What a name may mean beside the spec that it is taken for.

    Raises:
        KvcalcError: unknown or ambiguous name.
    """
    meant = None if _is_path(name_or_path) or _is_joint(name_or_path) else _meant(name_or_path)
    return tuple(map(_named, meant.others)) if isinstance(meant, Meaning) else ()


def spec_text(name_or_path: str) -> str:
    """The TOML file of a name, as it stands: what to start an own spec from.

    Raises:
        KvcalcError: as `load_gpu`.
    """
    gpu = load_gpu(name_or_path)  # so that a file that is no spec is not copied
    path = Path(name_or_path) if _is_path(name_or_path) else spec_path(gpu.name)
    return path.read_text(encoding="utf-8")


def all_gpus() -> tuple[GpuSpec, ...]:
    """Every spec of the catalog, by name."""
    return tuple(_named(name) for name in gpu_names())


def offered_gpus() -> tuple[GpuSpec, ...]:
    """Those that somebody has a list price for, and the data centers' cards; no other file is parsed."""
    from kvcalc.catalog.prices import priced_names

    priced = priced_names()
    names = (name for name in gpu_names() if name in priced or _IN_SERVERS in spec_path(name).read_text("utf-8"))
    return tuple(gpu for gpu in map(_named, names) if gpu.name in priced or gpu.segment == "data-center")


def gpu_from_toml(path: Path) -> GpuSpec:
    """A spec from a file.

    Raises:
        KvcalcError: with the file and the first field that is wrong.
    """
    try:
        gpu = from_file(GpuSpec, read_toml(path, "GPU spec"))
    except Mistake as error:
        known = f"its fields are {', '.join(field_names(GpuSpec))}"
        hint = known if error.why == UNKNOWN_FIELD else "see docs/reference/gpus.md for the form of a GPU spec"
        raise KvcalcError(f"GPU spec {path}: {error.where or 'the file'}: {error.why}", hint=hint) from error
    for fault in faults(gpu):
        raise KvcalcError(f"GPU spec {path}: {fault}", hint="base units: bytes, bytes/s, dense FLOP/s; ISO dates")
    return gpu


@cache
def _named(name: str) -> GpuSpec:
    return build(GpuSpec, read_toml(spec_path(name), "GPU spec"))


def spec_path(name: str) -> Path:
    """The file of a spec of the catalog."""
    return data_dir("gpu_specs") / f"{name}.toml"


def aliases_of(gpu: GpuSpec) -> tuple[str, ...]:
    """Other spellings of a GPU's name: its own file's, and the catalog's."""
    table = spellings.alias_table()
    families = [row for kind in ("assumed", "rebuilt") for row in table[kind] if row["gpus"][0] == gpu.name]
    return (*gpu.aliases, *table["aliases"].get(gpu.name, ()), *(name for row in families for name in row["names"]))


def _either(names: tuple[str, ...]) -> str:
    """One of several, in words."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _is_path(text: str) -> bool:
    if text.endswith(".toml") or text.startswith((".", "/", "~")) or "\\" in text:
        return True
    try:
        return "/" in text and Path(text).exists()  # else two names: H100/H200
    except (OSError, ValueError):  # too long, a NUL
        return False


def _meant(text: str) -> Meaning | GpuSpec:
    """The spec that a text means and which others it may have meant, or the spec in a cloud's machine."""
    if spellings.is_name(text):
        return Meaning(text)
    found = _in_cloud(text) or spellings.meaning(text, _named)
    if found is None:
        raise KvcalcError(f"unknown GPU {text[:100]!r}", hint=_hint(text[:100]))
    return found


def _is_joint(text: str) -> bool:
    """Whether a name is of several cards, and not one card's own (Ryzen AI Max+ 395)."""
    return is_split(text) and not spellings.is_name(text) and spellings.meaning(text, _named) is None


def _in_cloud(text: str) -> GpuSpec | None:
    from kvcalc.catalog.instances import find_instance, in_machine

    found = find_instance(text[:100])
    return None if found is None else in_machine(_named(found[0]), *found[1:])


def _hint(text: str) -> str:
    """Several GPUs, a size without a name, or a name that is close to one."""
    counted = re.fullmatch(_COUNT, text)
    one = (counted[2] or counted[3]) if counted else text
    if counted and (found := spellings.families().found(spellings.spelling(one))):
        return f"say {' or '.join(found)}; how many follows from --tensor-parallel-size, -pp and -dp"
    sized = re.fullmatch(_SIZE_ALONE, one)
    if sized and (near := _near(int(sized[1]))):
        return f"which of them? {near}"
    if typo := spellings.mistyped(text):
        return f"did you mean {_either(typo)}? {LISTING}"
    if machines := _near_machines(text):
        return f"did you mean {_either(machines)}? `kvcalc gpus --machines` lists the clouds' machines"
    products = (name.lower() for row in spellings.alias_table()["assumed"] for name in row["names"])
    return did_you_mean(re.sub(r"[\s_]+", "-", text), [*gpu_names(), *products], LISTING)


def _near_machines(text: str) -> tuple[str, ...]:
    """Clouds' machines whose name begins or goes on like this, or is close to it."""
    from difflib import get_close_matches

    from kvcalc.catalog.instances import all_instances

    wanted = text.lower().replace(" ", "")
    if len(wanted) < 4 or not re.search(r"\d", wanted):
        return ()
    known = {machine.name.lower().removeprefix("standard_"): machine.name for _, machine in all_instances()}
    begun = [name for key, name in known.items() if key.startswith(wanted)]
    close = [known[key] for key in get_close_matches(wanted, known, n=3, cutoff=0.75)]
    return tuple((begun or close)[:3])


def _near(gigabytes: int) -> str:
    """The GPUs of about this memory, those that are rented first; "" without one."""
    from kvcalc.catalog.prices import price_of

    near = [gpu for gpu in all_gpus() if is_near(gigabytes * GB, gpu.memory_bytes)]
    near.sort(key=lambda gpu: (price_of(gpu) is None, -gpu.memory_bandwidth_bytes_per_s, gpu.name))
    more = f" and {len(near) - _MOST_HINTED} more" if len(near) > _MOST_HINTED else ""
    return ", ".join(gpu.name for gpu in near[:_MOST_HINTED]) + more
