"""What a printed command cannot say, in a comment under it that is read back: `# kvcalc: --engine-version 0.11`.

On a line of its own: a shell that takes comments passes it over, and one that does not has run the command before.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kvcalc.catalog.budgets import flag_fields
from kvcalc.catalog.serve.wording import GIB_FIELDS, text_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import field_names
from kvcalc.specs.checked import flag_of, is_switch
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB

_NOTE = re.compile(r"^[ \t]*# kvcalc:(.*)$", re.MULTILINE)


class Note(NamedTuple):
    """What stood in the comment: the model's name here, and fields of a deployment as their flags take them."""

    model: str | None
    fields: Mapping[str, Any]


def note(deployment: Deployment, names: Iterable[str], model: str | None = None) -> str:
    """The comment for fields of a deployment; "" where there is nothing to say.

    Args:
        deployment: whose fields they are.
        names: of the fields that the command above does not say.
        model: how kvcalc finds the model, where the command has another name for it.

    >>> note(Deployment(engine_version="0.11", overhead_bytes=3 << 30), ["engine_version", "overhead_bytes"])
    '# kvcalc: --engine-version 0.11 --overhead 3221225472B'
    >>> note(Deployment(acceptance=(0.8, 0.5)), ["acceptance"])
    '# kvcalc: --acceptance 0.8 --acceptance 0.5'
    >>> note(Deployment(), [])
    ''
    """
    words = [*([model] if model else []), *(word for name in names for word in _said(name, getattr(deployment, name)))]
    return f"# kvcalc: {shlex.join(words)}" if words else ""


def _said(name: str, value: Any) -> Iterator[str]:
    flag = flag_of(name)
    if isinstance(value, bool):
        yield flag if value else f"--no-{flag[2:]}"
        return
    if isinstance(value, tuple):
        yield from (word for one in value for word in (flag, str(one)))
        return
    yield flag
    if value is None:
        yield "auto"  # a length that the memory decides
        return
    if name in GIB_FIELDS:
        value = value / GIB
    yield f"{value}B" if name.endswith(("_bytes", "_bytes_per_s")) and name not in GIB_FIELDS else str(text_of(value))


def noted(text: str) -> Note:
    """What the comments of a text say.

    Raises KvcalcError for a flag that a deployment does not have, or one without its value.

    >>> noted("vllm serve m -tp 2\\n# kvcalc: --engine-version 0.11")
    Note(model=None, fields={'engine_version': '0.11'})
    """
    model: str | None = None
    fields: dict[str, Any] = {}
    known = {f"--{name}": field for name, field in flag_fields().items() if field in field_names(Deployment)}
    for match in _NOTE.finditer(text):
        words = iter(_words(match[1]))
        for word in words:
            if not word.startswith("-"):
                model = word
                continue
            field = known.get(word) or known.get("--" + word.removeprefix("--no-"))
            if field is None:
                raise KvcalcError(f"--serve: the comment # kvcalc: has {word[:40]}", hint="leave the flag out")
            if is_switch(Deployment, field):
                fields[field] = word in known
                continue
            value = next(words, None)
            if value is None:
                raise KvcalcError(f"--serve: {word} in the comment # kvcalc: has no value", hint="add it")
            several = isinstance(getattr(Deployment(), field), tuple)
            fields[field] = [*fields.get(field, ()), value] if several else value
    return Note(model, fields)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise KvcalcError(
            f"--serve: the comment # kvcalc:{text[:60]} has an open quote", hint="close it, or leave the comment out"
        ) from None
