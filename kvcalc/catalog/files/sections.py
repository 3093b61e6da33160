"""One table out of a TOML file of many, without parsing the rest: start-up reads one family of a hundred."""

import re
import tomllib
from collections.abc import Iterable
from typing import Any


def find_table(texts: Iterable[str], name: str) -> dict[str, Any] | None:
    """The top-level table `name`, from the first text that has it; None: no text has.

    The files are the package's own: every table begins with its header on a line, and its sub-tables follow it.

    >>> find_table(["[a]\\nx = 1\\n[a.b]\\ny = 2\\n[c]\\nz = 3\\n"], "a")
    {'x': 1, 'b': {'y': 2}}
    """
    quoted = re.escape(name)
    mine = re.compile(rf"^\[(?:{quoted}|\"{quoted}\")[\].]", re.MULTILINE)
    for text in texts:
        first = mine.search(text)
        if first is None:
            continue
        end = len(text)
        for header in re.compile(r"^\[", re.MULTILINE).finditer(text, first.end()):
            if not mine.match(text, header.start()):
                end = header.start()
                break
        table: dict[str, Any] = tomllib.loads(text[first.start() : end])[name]
        return table
    return None
