"""Where `-o` writes: a regular file whole or not at all, anything else as it is."""

import contextlib
import os
import stat
from pathlib import Path

from kvcalc.errors import KvcalcError


def check_writable(path: Path, flag: str = "-o") -> None:
    """Before the work: can the answer go there? `flag`: that named the path.

    Raises:
        KvcalcError: a directory, a folder that does not exist, no permission.
    """
    try:
        found, folder = path.exists(), Path(os.path.realpath(path)).parent
        if os.path.islink(os.path.realpath(path)):
            raise ValueError("its links lead round in a circle")
    except (OSError, ValueError) as error:  # too long, a NUL
        raise KvcalcError(f"{flag}: {path} is no path: {error}", hint="give the name of a file") from None
    if path.is_dir():
        raise KvcalcError(f"{flag}: {path} is a directory", hint="give the name of a file")
    if not found and not folder.is_dir():
        raise KvcalcError(f"{flag}: the directory {folder} does not exist", hint="create it, or write elsewhere")
    needed = [folder] if not found else [path] if writes_through(path) else [path, folder]
    if not all(os.access(one, os.W_OK) for one in needed):
        raise KvcalcError(f"{flag}: {path} cannot be written", hint="check its permissions, or write elsewhere")


def writes_through(path: Path) -> bool:
    """Whether it is a device, a pipe or an open file of this process, which a new file must not take the place of."""
    if not path.exists():
        return False
    real = os.path.realpath(path)
    return not stat.S_ISREG(path.stat().st_mode) or os.path.abspath(path).startswith(("/dev/", "/proc/")) or (
        real.startswith(("/dev/fd/", "/proc/"))
    )  # fmt: skip


def write_file(path: Path, data: bytes) -> None:
    """All of it or nothing: written beside the file that a link leads to, then renamed over it; the mode stays.

    Raises:
        OSError: it cannot be written.
    """
    if writes_through(path):
        with path.open("wb") as file:
            file.write(data)
        return
    import tempfile

    target = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if target.exists():
            now = target.stat()
            with contextlib.suppress(OSError):  # another's file, and not to be given away
                os.chown(name, now.st_uid, now.st_gid)
            os.chmod(name, stat.S_IMODE(now.st_mode))
        else:
            os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
