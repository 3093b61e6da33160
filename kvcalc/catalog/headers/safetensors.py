"""What safetensors files say of themselves: exact bytes and elements per dtype, from their headers alone.

A file starts with eight bytes, the length of a JSON header; the header names each tensor's dtype, shape and place.
An index (`model.safetensors.index.json`) says which files belong together. Nothing else of a file is read.

huggingface_hub has a reader of its own that does not serve here: 0.30, which is allowed, has none for local files; all
of them refuse headers above 25 MB, take a tensor of any size and a shape below zero, and read a whole file from a
server that ignores ranges (HfApi.parse_safetensors_file_metadata and _parse_safetensors_header, 0.30 and 2.4); and its
import takes twenty times the start of Python.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from kvcalc.catalog.files.jsonfile import parse_json, read_json
from kvcalc.catalog.files.reader import Reader, file_reader
from kvcalc.catalog.headers.projections import Rows, rows_of
from kvcalc.errors import KvcalcError
from kvcalc.units import KIB, MIB

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
FIRST_READ = 128 * KIB  # holds most headers whole
LARGEST_HEADER = 100 * MIB  # the format's own limit
LARGEST_INDEX = 64 * MIB  # a line for each tensor: the experts of the largest models take 25 MiB
LARGEST_TOTAL = 10**15  # bytes; a thousand times the largest checkpoints
LONGEST_NAME = 255  # bytes, of every file system in use
MOST_FILES = 10_000
DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
FLOATS = {"BF16", "F16", "F32"}


@dataclass(frozen=True)
class Stored:
    """What a checkpoint's files hold."""

    bytes: int
    elements: Mapping[str, int] = field(default_factory=dict)  # by dtype; empty where only an index was read
    rows: Rows = field(default_factory=dict)  # of the matrices that make keys and values, by layer

    @property
    def parameters(self) -> int | None:
        """Elements, where none is packed or a scale: unquantized checkpoints."""
        plain = self.elements and set(self.elements) <= FLOATS
        return sum(self.elements.values()) if plain else None


def total(parts: Iterable[Stored]) -> Stored:
    """Several files together."""
    size, elements, rows = 0, dict[str, int](), dict[str, int]()
    for part in parts:
        size += part.bytes
        rows.update(part.rows)
        for dtype, count in part.elements.items():
            elements[dtype] = elements.get(dtype, 0) + count
    return Stored(size, elements, rows)


def read_header(read: Reader, what: str) -> Stored:
    """The tensors of one safetensors file.

    Raises:
        KvcalcError: not a safetensors file, cut off, or tensors that cannot be.
    """
    first = read(0, FIRST_READ)
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 2 <= length <= LARGEST_HEADER:
        raise _damaged(what, "it has no header of a possible length")
    header = first[8 : 8 + length]
    if len(header) < length:
        header += read(len(first), length - len(header))
    if len(header) < length:
        raise _damaged(what, f"its header is cut off at {len(header)} of {length} bytes")
    tensors = parse_json(header, f"the header of {what}", LARGEST_HEADER)
    return total(_tensor(name, entry, what) for name, entry in tensors.items() if name != "__metadata__")


def _tensor(name: str, entry: Any, what: str) -> Stored:
    try:
        dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        sane = all(isinstance(n, int) and n >= 0 for n in (*shape, start, end)) and end - start <= LARGEST_TOTAL
        if not sane or dtype not in DTYPE_BITS or end - start != -(-prod(shape) * DTYPE_BITS[dtype] // 8):
            raise ValueError
        count, size = prod(shape), end - start
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(what, f"its tensor {name[:60]!r} has an impossible dtype, shape or size") from error
    made = rows_of(name, tuple(shape))
    return Stored(size, {dtype: count}, {} if made is None else dict([made]))


def _damaged(what: str, why: str) -> KvcalcError:
    return KvcalcError(f"{what} is not a readable safetensors file: {why}", hint="fetch it again, or size the config")


def read_index(index: Mapping[str, Any], what: str) -> tuple[list[str], Stored | None]:
    """The files of an index, and the total that it states (None: it states none).

    Raises:
        KvcalcError: a total that cannot be, file names that leave the folder, too many files.
    """
    files = index.get("weight_map", {})
    names = sorted({name for name in files.values() if isinstance(name, str)}) if isinstance(files, dict) else []
    bad = next((name for name in names if not _is_file_name(name)), None)
    if bad is not None or len(names) > MOST_FILES:
        raise KvcalcError(
            f"{what} names impossible files{f': {bad[:60]!r}' if bad else ''}",
            hint="fetch it again, or size the config",
        )
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if size is None:
        return names, None
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= LARGEST_TOTAL:
        raise KvcalcError(
            f"{what} states an impossible total_size: {str(size)[:40]}", hint="size the config.json by itself instead"
        )
    return names, Stored(size)


def _is_file_name(name: str) -> bool:
    """Whether a folder can have a file of this name, which leads nowhere else."""
    short = len(name.encode("utf-8", "replace")) <= LONGEST_NAME
    return bool(name) and short and "/" not in name and "\\" not in name and not name.startswith(".")


def read_folder(folder: Path) -> tuple[Stored, str] | None:
    """What the safetensors files of a local folder hold, and where that was read; None where there are none."""
    index = folder / INDEX
    if index.is_file():
        names, stated = read_index(read_json(index, "index", LARGEST_INDEX), str(index))
        if names and all((folder / name).is_file() for name in names):
            return total(_local(folder / name) for name in names), f"headers of {len(names)} safetensors files"
        return None if stated is None else (stated, str(index))
    if (folder / SINGLE).is_file():
        return _local(folder / SINGLE), f"header of {SINGLE}"
    return None


def _local(path: Path) -> Stored:
    return read_header(file_reader(path), str(path))
