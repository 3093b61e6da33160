"""One table out of a TOML file of many, without parsing the rest: start-up reads one family of a hundred."""

import re
import tomllib
from collections.abc import Iterable
from typing import Any


def find_table(texts: Iterable[str], *path: str) -> dict[str, Any] | None:
    """The table of this path, from the first text that has it; None: no text has.

    The files are the package's own: every table begins with its header on a line, and its sub-tables follow it.

    >>> text = "[a]\\nx = 1\\n[a.b]\\ny = 2\\n[c]\\nz = 3\\n"
    >>> find_table([text], "a"), find_table([text], "a", "b")
    ({'x': 1, 'b': {'y': 2}}, {'y': 2})
    """
    dotted = r"\.".join(f'(?:{name}|"{name}")' for name in map(re.escape, path))
    mine = re.compile(rf"^\[{dotted}[\].]", re.MULTILINE)
    for text in texts:
        first = mine.search(text)
        if first is None:
            continue
        end = len(text)
        for header in re.compile(r"^\[", re.MULTILINE).finditer(text, first.end()):
            if not mine.match(text, header.start()):
                end = header.start()
                break
        table: dict[str, Any] = tomllib.loads(text[first.start() : end])
        for name in path:
            table = table[name]
        return table
    return None
