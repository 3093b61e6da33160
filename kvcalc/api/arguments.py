"""From a function's keywords to fields, as the command line comes to them from flags; mistakes in arguments' words."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from os import PathLike, fspath
from typing import Any, ParamSpec, TypeVar, get_type_hints

from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import FLAG_OF, OTHER_NAMES, flag_of

_FIELD_OF = {flag[2:].replace("-", "_"): field for field, flag in FLAG_OF.items()} | {
    name.replace("-", "_"): field for name, field in OTHER_NAMES.items()
}
_OF_GIB = ("cpu_offload_bytes", "swap_space_bytes", "kv_offload_bytes")  # numbers of GiB, as vLLM has them
_THREE_WAYS = ("enable_prefix_caching", "async_scheduling")  # on, off, or as the engine does
_FLAG = re.compile(r"(?<![\w-])--?([a-z][a-z0-9_-]*)")
_COMMAND = re.compile(r"`kvcalc ([a-z]+)`")

Given = ParamSpec("Given")
Found = TypeVar("Found")


def field_of(keyword: str) -> str:
    """The field that a keyword fills.

    >>> field_of("tp"), field_of("kv_memory"), field_of("block_size")
    ('tensor_parallel_size', 'kv_memory_bytes', 'block_size')
    """
    return _FIELD_OF.get(keyword, keyword)


def fields_of(keywords: Mapping[str, Any], known: type) -> dict[str, Any]:
    """Every keyword's field and value; None is as if it had not been given.

    Args:
        keywords: as the function was called.
        known: the TypedDict of the function's keywords.

    Raises:
        KvcalcError: an unknown keyword, or two that fill one field.
    """
    names = get_type_hints(known)
    found: dict[str, Any] = {}
    for name, value in keywords.items():
        if name not in names:
            raise KvcalcError(f"unknown argument {name!r}", hint=did_you_mean(name, names, "keywords are the flags"))
        field = field_of(name)
        if value is None or (value is False and field not in _THREE_WAYS):
            continue
        if field in found:
            raise KvcalcError(f"{name} is given twice, by two names", hint="leave one of them out")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        found[field] = str(value) if field in _OF_GIB and number else value
    return found


def named(value: object, what: str) -> str | None:
    """A name as it was given, if it is one.

    Raises:
        KvcalcError: it is no text.

    >>> named("l4", "gpu")
    'l4'
    """
    if value is None or isinstance(value, str):
        return value
    hint = (
        "compare, curve and plan take several"
        if isinstance(value, list | tuple)
        else "give its name, or a path to its file"
    )
    raise KvcalcError(f"{what}: {value!r} is not one name", hint=hint)


def several(value: Any) -> list[Any]:
    """What a sweep takes: one value, or a sequence of them.

    >>> several("l4"), several(range(2))
    (['l4'], [0, 1])
    """
    return [value] if isinstance(value, str | int | float) else list(value)


def in_arguments(text: str, used: Iterable[str] = ()) -> str:
    """A message of the command line's in the words of Python; `used` has the keywords of the call, as they were given.

    >>> in_arguments("no GPU given: name one with --gpu; `kvcalc gpus` lists them")
    'no GPU given: name one with gpu; `kvcalc.gpus()` lists them'
    >>> in_arguments("`--help` says what --max-model-len takes")
    '`kvcalc COMMAND --help` says what max_model_len takes'
    """
    for keyword in used:
        text = re.sub(rf"--{re.escape(_spelled(keyword))}(?![\w-])", keyword, text)
    text = _COMMAND.sub(r"`kvcalc.\1()`", text).replace("`--help`", "`kvcalc COMMAND --help`")
    return _FLAG.sub(lambda match: match[0] if match[1] == "help" else match[1].replace("-", "_"), text)


def _spelled(keyword: str) -> str:
    """The flag, without its dashes, that messages have for a keyword's field."""
    return flag_of(field_of(keyword))[2:]


def _as_text(value: Any) -> Any:
    if isinstance(value, PathLike):
        return fspath(value)
    return [_as_text(one) for one in value] if isinstance(value, list | tuple) else value


def speaks_of_arguments(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """The same function, which takes paths as text, and says what is wrong with arguments of them, not of flags."""

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Found:
        try:
            return function(*map(_as_text, args), **{name: _as_text(one) for name, one in kwargs.items()})
        except KvcalcError as error:
            said = (in_arguments(text, kwargs) for text in (error.message, error.hint))
            raise KvcalcError(*said) from error.__cause__

    return called
