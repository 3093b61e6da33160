"""The header of a GGUF file: its metadata and the name, shape and type of each tensor. No tensor data is read.

Layout (ggml's gguf.md): magic, version, two counts; then keys with typed values; then tensors. Long lists (the
tokenizer's vocabulary) are stepped over and only their length is kept. Reading goes forward in large blocks, so the
same code serves a file on disk and range requests to a server.
"""

import struct
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

from kvcalc.catalog.files.reader import Reader
from kvcalc.errors import KvcalcError
from kvcalc.units import MIB

BLOCK = 2 * MIB
LARGEST_HEADER = 256 * MIB
MOST_KEYS, MOST_TENSORS = 100_000, 1_000_000
LONGEST_NAME = 65_535
LONGEST_LIST = 10_000_000
KEPT = 4096  # entries of a list whose values are kept: one for each layer, not one for each token
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Length:
    """Stands for a list that was stepped over."""

    count: int


@dataclass(frozen=True)
class Entry:
    """One tensor of the file: shape as (outputs, inputs), ggml's type."""

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int


@dataclass(frozen=True)
class Gguf:
    """A header: metadata by key, tensors in the file's order."""

    metadata: dict[str, Any]
    tensors: tuple[Entry, ...]


@cache
def tables() -> dict[str, Any]:
    """Data of the format: types with their blocks, kinds of tensor, patterns of windows."""
    return tomllib.loads(files("kvcalc.catalog.headers").joinpath("gguf.toml").read_text(encoding="utf-8"))


class _Cursor:
    """Reads forward, in blocks."""

    def __init__(self, read: Reader, what: str) -> None:
        self._read, self._what = read, what
        self._start, self._buffer, self.at = 0, b"", 0
        self.order = "<"

    def take(self, count: int) -> bytes:
        if self.at + count > LARGEST_HEADER:
            raise damaged(self._what, "its header has no end")
        offset = self.at - self._start
        if offset + count > len(self._buffer):
            fresh = self._read(self.at, max(count, BLOCK))
            self._start, self._buffer, offset = self.at, fresh, 0
            if len(fresh) < count:
                raise damaged(self._what, "its header is cut off")
        self.at += count
        return self._buffer[offset : offset + count]

    def number(self, code: str) -> Any:
        return struct.unpack(self.order + code, self.take(struct.calcsize(code)))[0]

    def text(self, longest: int = LONGEST_NAME) -> str:
        length = self.number("Q")
        if length > longest:
            raise damaged(self._what, f"it has a text of {length} characters")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text(16 * MIB)  # a chat template
        if kind == _ARRAY and depth < 4:
            return self._list(depth)
        raise damaged(self._what, f"it has a value of unknown type {kind}")

    def _list(self, depth: int) -> Any:
        kind, count = self.number("I"), self.number("Q")
        if count > LONGEST_LIST:
            raise damaged(self._what, f"it has a list of {count} entries")
        if count <= KEPT:
            return [self.value(kind, depth + 1) for _ in range(count)]
        if kind in _SCALARS:
            left = count * struct.calcsize(_SCALARS[kind])
            while left:
                step = min(left, BLOCK)
                self.take(step)
                left -= step
        else:
            for _ in range(count):
                self.value(kind, depth + 1)
        return Length(count)


def damaged(what: str, why: str) -> KvcalcError:
    """The error for a file that cannot be what it claims to be."""
    return KvcalcError(f"{what} is not a readable GGUF file: {why}", hint="fetch it again")


def read_gguf(read: Reader, what: str) -> Gguf:
    """The header.

    Raises:
        KvcalcError: not a GGUF file, cut off, or with sizes that cannot be.
    """
    cursor = _Cursor(read, what)
    if cursor.take(4) != b"GGUF":
        raise damaged(what, "it does not begin with GGUF")
    version = cursor.number("I")
    if version in (2 << 24, 3 << 24):  # written on a big-endian machine
        cursor.order, version = ">", version >> 24
    if version not in (2, 3):
        raise damaged(what, f"version {version} is not 2 or 3")
    tensor_count, key_count = cursor.number("Q"), cursor.number("Q")
    if tensor_count > MOST_TENSORS or key_count > MOST_KEYS:
        raise damaged(what, f"it claims {tensor_count} tensors and {key_count} keys")
    metadata = {}
    for _ in range(key_count):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("I"))
    return Gguf(metadata, tuple(_entry(cursor, what) for _ in range(tensor_count)))


def _entry(cursor: _Cursor, what: str) -> Entry:
    name = cursor.text()
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= 4:
        raise damaged(what, f"its tensor {name[:60]!r} has {dimensions} dimensions")
    sizes = [cursor.number("Q") for _ in range(dimensions)]  # inputs first
    kind = cursor.number("I")
    cursor.number("Q")  # where its data is
    known = tables()["types"].get(str(kind))
    if known is None:
        raise KvcalcError(
            f"{what}: tensor {name[:60]!r} has ggml type {kind}, which kvcalc does not know", hint="update kvcalc"
        )
    if not all(1 <= size <= 2**40 for size in sizes) or prod(sizes) > 10**14 or sizes[0] % known["block"]:
        raise damaged(what, f"its tensor {name[:60]!r} has an impossible shape")
    size = prod(sizes) // known["block"] * known["bytes"]
    return Entry(name, tuple(reversed(sizes)), known["name"], size)
