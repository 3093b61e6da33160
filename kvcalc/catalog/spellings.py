"""The spellings that people type for an accelerator: which specs can a text mean?

The names that differ from a spec's own are in `gpu_specs/aliases.toml`. Sizes and core counts are not listed there:
they are read out of the text and compared with the specs' facts.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.errors import KvcalcError
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GB, GIB

LONGEST_NAME = 100  # characters: no file is named longer
NOT_SPECS = {"aliases", "prices"}
_NOISE = {
    "nvidia", "amd", "intel", "apple", "geforce", "radeon", "tesla", "instinct", "google", "cloud", "aws", "r", "tm",
    "class", "gpu", "graphics", "generation",
}  # fmt: skip
_MACS = r"\b(?:macbook(?: (?:pro|air))?|mac (?:pro|studio|mini)|imac(?: pro)?)(?: \d\d(?=\b))?"
_PRODUCT_LINES = r"(?:rtx|gtx|rx|arc)+(?=.)"  # in front of the name: RTX 5090 and 5090 are one
# Compiled where they are needed: most names are found as they are.
_SIZE = r"(?i)\b(\d{1,4}) ?(?:gb|gib|g)\b(?:\s*\([^)]*\))?"
# 40c, 40 GPU cores, 12P+4E+40GPU
_CORES = r"(?i)\b(?:\d+P\+\d+E\+)?(\d{1,3}) ?(?:c|(?:gpu )?cores?|(?<=E\+\d)GPU|(?<=E\+\d\d)GPU)\b"
_MEMORY_TOLERANCE = 0.08  # a B200 is sold as 180 and as 192 GB; an A100 of 40 is not one of 80
_REPORTED_TOLERANCE = 0.6  # GiB: an L4 of 24 GB reports 22.06 GiB, which is written as 22


class Meaning(NamedTuple):
    """What a text can mean: the spec to take, and the others that it may have meant."""

    name: str
    others: tuple[str, ...] = ()


class Families(NamedTuple):
    """Specs by spelling; of several the first is the one to take."""

    assumed: dict[str, tuple[str, ...]]  # with the others as an assumption
    ambiguous: dict[str, tuple[str, ...]]  # refused, unless a size settles it
    rebuilt: dict[str, tuple[str, ...]]  # the first without a word; the others only by their size
    plain: dict[str, tuple[str, ...]]

    def found(self, key: str) -> tuple[str, ...]:
        """Every spec that a spelling may stand for."""
        for table in self:
            if key in table:
                return tuple(table[key])
        return ()


def gpu_names() -> tuple[str, ...]:
    """Every accelerator of the catalog, sorted."""
    return _names()


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in data_dir("gpu_specs").glob("*.toml") if path.stem not in NOT_SPECS))


def is_name(text: str) -> bool:
    """Is this a spec's own name, letter by letter? Looks for the one file."""
    plain = len(text) <= LONGEST_NAME and text.isascii() and text.replace("-", "").isalnum() and text not in NOT_SPECS
    return plain and (data_dir("gpu_specs") / f"{text}.toml").is_file()


def spelling(name: str) -> str:
    """A name without what does not matter: case, separators, the vendor, the product line in front.

    >>> spelling("NVIDIA GeForce RTX 4090"), spelling("h100_sxm"), spelling("rx7900xtx")
    ('4090', 'h100sxm', '7900xtx')
    """
    text = name.strip().lower()
    words = re.split(r"[\s_\-()+]+", re.sub(_MACS, "", text) if "mac" in text else text)
    return re.sub(rf"^{_PRODUCT_LINES}", "", "".join(word for word in words if word not in _NOISE))


@cache
def alias_table() -> dict[str, Any]:
    """The catalog's own aliases, as the file has them."""
    return read_toml(data_dir("gpu_specs") / "aliases.toml", "GPU aliases")


@cache
def families() -> Families:
    """Every spelling of the catalog."""
    table = alias_table()
    named: list[tuple[str, str]] = [(alias, name) for name, known in table["aliases"].items() for alias in known]
    return Families(
        assumed=_other_sizes() | _by_spelling(table["assumed"]),
        ambiguous=_by_spelling(table["ambiguous"]),
        rebuilt=_by_spelling(table["rebuilt"]),
        plain={spelling(alias): (name,) for alias, name in (*named, *zip(gpu_names(), gpu_names(), strict=True))},
    )


def _other_sizes() -> dict[str, tuple[str, ...]]:
    """Boards that are named after another and their memory: `rtx3080-12g` beside `rtx3080`, which a bare name means."""
    found: dict[str, tuple[str, ...]] = {}
    known = set(gpu_names())
    for name in gpu_names():
        product, _, size = name.rpartition("-")
        if product in known and size.endswith("g") and size[:-1].isdigit():
            found[spelling(product)] = (*found.get(spelling(product), (product,)), name)
    return found


def _by_spelling(rows: list[dict[str, list[str]]]) -> dict[str, tuple[str, ...]]:
    return {spelling(name): tuple(row["gpus"]) for row in rows for name in row["names"]}


_LOOKALIKES = str.maketrans("oil", "011")


def mistyped(text: str) -> tuple[str, ...]:
    """Specs whose spelling has the same letters in another order, or letters that look like its digits.

    >>> mistyped("rtx 5900"), mistyped("h1oo")
    (('rtx5090',), ('h100-sxm',))
    """
    key = spelling(text[:100])
    if len(key) < 3 or not any(letter.isdigit() for letter in key):
        return ()
    found: dict[str, None] = {}
    for table in families():
        for known, names in table.items():
            alike = known.translate(_LOOKALIKES) == key.translate(_LOOKALIKES)
            if alike or (len(known) == len(key) and sorted(known) == sorted(key)):
                found[names[0]] = None
    return tuple(found)[:3]


def meaning(text: str, spec: Callable[[str], GpuSpec]) -> Meaning | None:
    """What a text means; None: nothing that the catalog knows.

    Args:
        text: as typed, a spec's own name excluded.
        spec: the spec of a name, read only where a size or a count of cores has to be compared.

    Raises:
        KvcalcError: boards that differ too much for a guess; a memory size or core count that none of them has.
    """
    text = text[:100]
    known, key = families(), spelling(text)
    if key in known.ambiguous:
        raise KvcalcError(f"GPU {text!r}: its boards differ in memory", hint=f"say {' or '.join(known.ambiguous[key])}")
    if key in known.rebuilt:
        return Meaning(known.rebuilt[key][0])
    if found := known.found(key):
        return Meaning(found[0], found[1:])
    return _by_facts(text, spec)


def _by_facts(text: str, spec: Callable[[str], GpuSpec]) -> Meaning | None:
    """A name with a memory size or a count of cores behind it, which must then be those of a board."""
    words = re.sub(r"[_\-]+", " ", text)
    size, cores = re.search(_SIZE, words), re.search(_CORES, words)
    rest = re.sub(_CORES, " ", re.sub(_SIZE, " ", words))
    found = families().found(spelling(rest)) if size or cores else ()
    if not found:
        return None
    boards = [spec(name) for name in found]
    if cores:
        boards = [board for board in boards if board.sm_count == int(cores[1])]
    if size:
        boards = _of_size(boards, int(size[1]) * GB)
    if not boards:
        has = ", ".join(f"{name} ({spec(name).memory_bytes / GB:g} GB)" for name in found)
        what = "count of cores" if cores and not size else "memory size"
        raise KvcalcError(f"GPU {text!r}: no such {what}", hint=f"the catalog has {has}")
    return Meaning(boards[0].name, tuple(board.name for board in boards[1:]))


def _of_size(boards: list[GpuSpec], stated: int) -> list[GpuSpec]:
    """Those of exactly this nameplate, else those near it, else those that report as much to a program."""
    exact = [board for board in boards if board.memory_bytes == stated]
    near = [board for board in boards if is_near(stated, board.memory_bytes)]
    reported = [one for one in boards if abs(stated / GB - one.usable_memory_bytes / GIB) < _REPORTED_TOLERANCE]
    return exact or near or reported


def is_near(stated: int, nameplate: int) -> bool:
    """Can a stated memory size be this nameplate, as sellers round it?"""
    return abs(stated / nameplate - 1) <= _MEMORY_TOLERANCE
