"""Which modules a checkpoint's lists of names mean, each list read as the library that wrote it reads it.

Checkpoints of one model spell its modules in several ways: another root (`model.language_model.layers.` for
`language_model.model.layers.`), one name for projections that an engine fuses (`qkv_proj`), with or without an
expert's number. A name matches if any spelling of it does.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from kvcalc.errors import KvcalcError

Value = TypeVar("Value")
# How a list is read:
#   modules  transformers, AutoAWQ, torchao: whole components anywhere in the path ("visual", "mlp.gate",
#            "model.layers.0"), else a regular expression from the start that ends between components
#   globs    ModelOpt, Quark: whole components anywhere, or a shell pattern for the whole path
#   regexes  compressed-tensors: the whole path, or after "re:" a regular expression from the start
Style = Literal["modules", "globs", "regexes"]

FUSED = {
    "q_proj": ("qkv_proj",), "k_proj": ("qkv_proj",), "v_proj": ("qkv_proj",),
    "gate_proj": ("gate_up_proj", "w1"), "up_proj": ("gate_up_proj", "w3"), "down_proj": ("w2",),
    "w1": ("gate_proj", "gate_up_proj"), "w3": ("up_proj", "gate_up_proj"), "w2": ("down_proj",),
    "wq_a": ("fused_wqa_wkv",), "wkv": ("fused_wqa_wkv",),
    "q_a_proj": ("fused_qkv_a_proj",), "kv_a_proj_with_mqa": ("fused_qkv_a_proj",),
    "in_proj_qkv": ("in_proj_qkvz",), "in_proj_z": ("in_proj_qkvz",),
    "in_proj_b": ("in_proj_ba",), "in_proj_a": ("in_proj_ba",),
}  # fmt: skip

_PLAIN = re.compile(r"[\w.-]+")
_ROOT = re.compile(r"(?:^|^re:\^?)((?:[\w-]+\\?\.)*?)(?:layers|h|blocks)\\?\.(?:\d|\*|\.)")
_EXPERT = re.compile(r"\.experts\.\d+(?=\.|\Z)")
_LAYER = re.compile(r"^(?:[\w-]+\.)*?(?=(?:layers|h|blocks)\.\d+\.)")
_BESIDE = re.compile(r"mtp|vis|audio|speech|encoder|sam\\b")  # roots of other parts, whose layers have numbers too
_LONGEST = 400  # characters of one pattern
_NAMES = 4_000_000  # characters of a whole list: every expert of a large model by name takes two million
_PATTERNS = 2_000  # patterns of a list that are no plain names
# A repeated group can take exponential time, many open repeats a polynomial of high degree; no real list has either.
_COSTLY = re.compile(r"\)[*+{]|(?:[*+{][^*+{]*){9}")


def roots_in(patterns: Iterable[str]) -> frozenset[str]:
    """What stands before `layers.` in a list: `model.`, `language_model.model.`, nothing."""
    found = set()
    for pattern in patterns:
        match = _ROOT.match(pattern)
        root = match[1].replace("\\", "") if match else None
        if root is not None and not _BESIDE.search(root):
            found.add(root)
    return frozenset(found)


@lru_cache(maxsize=100_000)
def spellings(path: str, roots: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Every way in which a list may name this module.

    >>> spellings("model.layers.0.mlp.experts.0.w2")[:2]
    ('model.layers.0.mlp.experts.0.w2', 'model.layers.0.mlp.experts.w2')
    """
    own = _LAYER.match(path)
    paths = [path]
    if own:
        paths += [root + path[own.end() :] for root in sorted(roots) if root != own[0]]
    elif roots:  # lm_head, embed_tokens: below the same outer module as the layers
        paths += [root.split(".")[0] + "." + path for root in sorted(roots) if "." in root]
    paths += [_EXPERT.sub(".experts", one) for one in paths if ".experts." in one]
    stems = [one.rpartition(".") for one in paths if ".compressor." not in one]
    paths += [f"{stem}.{name}" for stem, _, last in stems for name in FUSED.get(last, ())]
    return tuple(dict.fromkeys(paths))


class Names:
    """A list of module names and patterns."""

    def __init__(self, patterns: Iterable[str], style: Style, where: str, roots: frozenset[str] | None = None) -> None:
        listed = [pattern for pattern in patterns if pattern]
        if sum(map(len, listed)) > _NAMES:
            raise KvcalcError(f"{where} is longer than any model needs", hint="is the config damaged?")
        self._roots = roots_in(listed) if roots is None else roots
        self._exact: set[str] = set()  # whole paths
        self._runs: set[str] = set()  # components anywhere in the path
        self._starts: tuple[str, ...] = ()  # "model.layers.0.self_attn*"
        sources: list[str] = []
        for pattern in dict.fromkeys(listed):
            self._add(pattern, style, where, sources)
        if len(sources) > _PATTERNS:
            raise KvcalcError(f"{where} has {len(sources)} patterns", hint="is the config damaged?")
        self._regexes = [re.compile(source) for source in sources]

    def _add(self, pattern: str, style: Style, where: str, sources: list[str]) -> None:
        plain = _PLAIN.fullmatch(pattern) is not None
        if pattern.startswith("re:"):
            sources.append(_checked(pattern[3:], where))
        elif style == "regexes":
            self._exact.add(pattern)
        elif plain:
            self._runs.add(pattern.strip("."))
        elif re.fullmatch(r"[\w.-]+\*", pattern):
            self._starts += (pattern[:-1],)
        elif style == "globs":
            sources.append(translate(pattern[:_LONGEST]))  # fnmatch's own translation is linear
        else:
            sources.append(_checked(rf"(?:{pattern})(?:(?<=\.)|(?=\.|$))", where, pattern))

    def __contains__(self, path: str) -> bool:
        return any(self._matches(one) for one in spellings(path, self._roots))

    def _matches(self, path: str) -> bool:
        if path in self._exact or (self._starts and path.startswith(self._starts)):
            return True
        if self._runs and any(run in self._runs for run in _runs(path)):
            return True
        return any(regex.match(path) for regex in self._regexes)


class Choices(Generic[Value]):
    """Names and patterns that each choose a value. A plain name wins over a pattern; of patterns the first."""

    def __init__(self, rules: Iterable[tuple[str, Value]], style: Style, where: str) -> None:
        plain: dict[Value, list[str]] = {}
        patterns: list[tuple[str, Value]] = []
        for name, value in rules:
            if _PLAIN.fullmatch(name):
                plain.setdefault(value, []).append(name)
            else:
                patterns.append((name, value))
        if len(patterns) > _PATTERNS:
            raise KvcalcError(f"{where} has {len(patterns)} patterns", hint="is the config damaged?")
        self._choices = [(Names(names, style, where), value) for value, names in plain.items()]
        self._choices += [(Names([pattern], style, where), value) for pattern, value in patterns]

    def of(self, path: str, default: Value) -> Value:
        """What is chosen for a module; `default` where nothing names it."""
        return next((value for names, value in self._choices if path in names), default)


@lru_cache(maxsize=100_000)
def _runs(path: str) -> tuple[str, ...]:
    """Every run of whole components: "a.b.c" has a, a.b, a.b.c, b, b.c, c."""
    parts = path.split(".")
    count = len(parts)
    return tuple(".".join(parts[i:j]) for i in range(count) for j in range(i + 1, count + 1))


def _checked(source: str, where: str, shown: str | None = None) -> str:
    """A regular expression of a stranger: one that compiles and cannot take forever."""
    shown = source if shown is None else shown
    if len(shown) > _LONGEST or _COSTLY.search(re.sub(r"(?:\.\*){2,}", ".*", shown)):
        raise KvcalcError(f"{where} has a pattern too costly to match: {shown[:60]!r}", hint="simplify the pattern")
    try:
        re.compile(source)
    except (re.error, OverflowError, RecursionError) as error:
        message = f"{where} has a broken pattern {shown[:60]!r}: {error}"
        raise KvcalcError(message, hint="correct the pattern") from error
    return source
