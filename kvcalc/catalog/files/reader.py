"""Some bytes of a large file: what the readers of headers are given, whether the file is on a disk or a server."""

from collections.abc import Callable
from pathlib import Path

from kvcalc.errors import KvcalcError, said_by

Reader = Callable[[int, int], bytes]  # (start, length) → at most that many bytes from there


def file_reader(path: Path) -> Reader:
    """Reads a local file; a KvcalcError where that is not possible."""

    def read(start: int, length: int) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            hint = "are all files of the model there, and may you read them?"
            raise KvcalcError(f"cannot read {path}: {said_by(error)}", hint=hint) from error

    return read
