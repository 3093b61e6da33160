"""Where an answer goes: the format, the file, and the check of both before the work starts."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kvcalc.cli.files import check_writable, write_file
from kvcalc.cli.messages import say
from kvcalc.errors import KvcalcError
from kvcalc.render.page import Bars, Page, Plot
from kvcalc.render.printable import encodable, printed
from kvcalc.results.base import Report

R = TypeVar("R", bound=Report)
FORMATS = ("table", "json", "csv", "md", "github")
PICTURES = ("svg", "png", "html")  # of commands that draw
DRAWN = {"format": "table, json, csv, md, svg, png or html."}  # how they say so


class Output:
    """Chosen from the flags before any work, so that a bad path or format fails at once."""

    def __init__(self, flags: dict[str, Any], formats: tuple[str, ...] = FORMATS, usual: str = "table") -> None:
        self.explain = bool(flags.pop("explain", False))
        asked = flags.pop("format", None)
        as_json = flags.pop("json", None)
        self.path = flags.pop("output", None)
        self.command = flags.pop("command", None)  # a pasted one
        self.format = "json" if as_json else asked or _implied(self.path) or usual
        if as_json and asked not in (None, "json"):
            raise KvcalcError(f"--json and --format {asked} contradict each other", hint="give one of the two")
        if self.format not in formats:
            raise KvcalcError(f"--format: unknown format {self.format!r}", hint=f"one of: {', '.join(formats)}")
        if self.format in PICTURES:
            self._check_picture()
        if self.path not in (None, "-"):
            check_writable(Path(self.path))

    def _check_picture(self) -> None:
        from kvcalc.render.pictures.draw import require

        if self.path is None:
            raise KvcalcError(f"--format {self.format} needs a file", hint="name one with -o; - is stdout")
        require(f"--format {self.format}")

    def emit(
        self,
        report: Report,
        page: Callable[[Any], Page],
        rows: Callable[[Any], list[dict[str, Any]]],
        pictures: Callable[[Any], Sequence[Plot | Bars]] | None = None,
    ) -> None:
        """Print or write the report in the chosen format; warnings go to stderr."""
        report = self.announced(report)
        if self.explain and not report.figures:
            said = "no formulas to show here; `kvcalc size` or `step` with --explain takes one deployment apart"
            say("warning", said)
        if self.format == "json":
            self.write(report.to_json(self.explain))
        elif self.format == "csv":
            from kvcalc.render.machine import to_csv

            self.write(to_csv(rows(report)))
        elif self.format in PICTURES and pictures is not None:
            from kvcalc.render.pictures.answer import drawn

            self.write(drawn(page(report).title, pictures(report), self.format))
        else:
            self.write(self._text(report, page(report)))

    def announced(self, report: R) -> R:
        """The report with the command that was pasted; its warnings go to stderr."""
        if self.command is not None:
            from kvcalc.answers.pasted import with_command

            report = with_command(report, self.command)
        for warning in report.warnings:
            say("warning", warning)
        return report

    def _text(self, report: Report, page: Page) -> str:
        if report.inputs.get("serve"):
            from kvcalc.render.command import with_command

            page = with_command(page, report)
        if self.explain:
            from kvcalc.render.explain import with_working

            page = with_working(page, report)
        page = printed(page)
        if self.format in ("md", "github"):
            from kvcalc.render import markdown

            return markdown.render(page)
        from kvcalc.render import table

        return table.render(page, colour=self.path in (None, "-") and table.wants_colour())

    def write(self, answer: str | bytes) -> None:
        """To the file, whole or not at all; or to stdout, where a reader that has gone (`| head`) is no error."""
        if self.path not in (None, "-"):
            write_file(Path(self.path), answer if isinstance(answer, bytes) else answer.encode())
            return
        if sys.stdout is None:
            raise KvcalcError("standard output is closed", hint="-o FILE writes to a file")
        try:
            if isinstance(answer, bytes):
                sys.stdout.buffer.write(answer)
            else:
                sys.stdout.write(encodable(answer, sys.stdout.encoding or "utf-8", is_json=self.format == "json"))
            sys.stdout.flush()
        except OSError as error:
            # The interpreter must not try again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                said = f"standard output cannot be written: {error.strerror}"
                raise KvcalcError(said, hint="-o FILE writes to a file") from None


def _implied(path: str | None) -> str | None:
    """The format that a file's name says."""
    ending = Path(path or "").suffix.lower().removeprefix(".")
    return ending if ending in (*FORMATS, *PICTURES) else None
