"""A server's log as lines, in whatever encoding a shell wrote it."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from kvcalc.errors import KvcalcError, said_by


@contextmanager
def opened_log(path: str) -> Iterator[TextIO]:
    """The file, open; bytes that are no UTF-8 do not matter.

    Raises:
        KvcalcError: it cannot be read.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise KvcalcError(
            f"cannot read the log {path[:200]}: {said_by(error)}", hint="check the path and its permissions"
        ) from error
    with file:
        encoding = "utf-16" if file.peek(2)[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8"  # PowerShell's redirects
        yield TextIOWrapper(file, encoding=encoding, errors="replace")
