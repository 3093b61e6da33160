"""Where an answer goes: the format, the file, and the check of both before the work starts."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.render.page import Page
from kvcalc.results.base import Report

FORMATS = ("table", "json", "csv", "md", "github")


class Output:
    """Chosen from the flags before any work, so that a bad path or format fails at once."""

    def __init__(self, flags: dict[str, Any], formats: tuple[str, ...] = FORMATS) -> None:
        self.explain = bool(flags.pop("explain", False))
        asked = flags.pop("format", None)
        as_json = flags.pop("json", None)
        self.path = flags.pop("output", None)
        self.command = flags.pop("command", None)  # a pasted one
        self.format = "json" if as_json else asked or "table"
        if as_json and asked not in (None, "json"):
            raise KvcalcError(f"--json and --format {asked} contradict each other", hint="give one of the two")
        if self.format not in formats:
            raise KvcalcError(f"--format: unknown format {self.format!r}", hint=f"one of: {', '.join(formats)}")
        if self.path not in (None, "-"):
            _check_writable(Path(self.path))

    def emit(
        self,
        report: Report,
        command: str,
        page: Callable[[Any], Page],
        rows: Callable[[Any], list[dict[str, Any]]],
    ) -> None:
        """Print or write the report in the chosen format; warnings go to stderr."""
        if self.command is not None:
            from kvcalc.answers.pasted import with_command

            report = with_command(report, self.command)
        for warning in report.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        if self.explain and not report.figures:
            said = "no formulas to show here; `kvcalc size` or `step` with --explain takes one deployment apart"
            print(f"warning: {said}", file=sys.stderr)
        if self.format == "json":
            from kvcalc.render.machine import to_json

            self.write(to_json(report, command, self.explain))
        elif self.format == "csv":
            from kvcalc.render.machine import to_csv

            self.write(to_csv(rows(report)))
        else:
            self.write(self._text(report, page(report)))

    def _text(self, report: Report, page: Page) -> str:
        if self.command is not None:
            from kvcalc.render.command import with_command

            page = with_command(page, report)
        if self.explain:
            from kvcalc.render.explain import with_working

            page = with_working(page, report)
        if self.format in ("md", "github"):
            from kvcalc.render import markdown

            return markdown.render(page)
        from kvcalc.render import table

        return table.render(page, colour=self.path in (None, "-") and table.wants_colour())

    def write(self, answer: str | bytes) -> None:
        """To the file, whole or not at all; or to stdout, where a reader that has gone (`| head`) is no error."""
        if self.path not in (None, "-"):
            write_atomically(Path(self.path), answer if isinstance(answer, bytes) else answer.encode())
            return
        try:
            if isinstance(answer, bytes):
                sys.stdout.buffer.write(answer)
            else:
                sys.stdout.write(answer)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nothing is left to say, and the interpreter must not try again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_writable(path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise KvcalcError(f"-o: {path} is a directory", hint="give the name of a file")
    if not folder.is_dir():
        raise KvcalcError(f"-o: the directory {folder} does not exist", hint="create it, or write elsewhere")
    target = path if path.exists() else folder
    if not os.access(target, os.W_OK) or not os.access(folder, os.W_OK):
        raise KvcalcError(f"-o: {path} cannot be written", hint="check its permissions, or write elsewhere")


def write_atomically(path: Path, data: bytes) -> None:
    """All of it or nothing: written beside the target, then renamed over it."""
    import tempfile

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
