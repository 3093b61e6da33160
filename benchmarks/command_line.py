"""What the benchmarks' command lines have in common: what they are for, paths that must be there, and --json."""

import json
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any


def parser(doc: str | None) -> ArgumentParser:
    """A parser that says what the benchmark's file says, with --json."""
    found = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    found.add_argument("--json", action="store_true", help="the whole result on stdout")
    return found


def folder(text: str) -> Path:
    """The type of an argument that names a folder."""
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"{text} is not a folder")
    return Path(text)


def file(text: str) -> Path:
    """The type of an argument that names a file."""
    if not Path(text).is_file():
        raise ArgumentTypeError(f"{text} is not a file")
    return Path(text)


def print_json(result: Any) -> None:
    """On stdout, valid when piped: a NaN is an error, not a word."""
    print(json.dumps(result, indent=1, allow_nan=False))
