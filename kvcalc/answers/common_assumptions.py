"""Assumptions of several answers in one report: what holds for all is said once, the rest says for which."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvcalc.results.compare import SHORT
from kvcalc.specs.base import Assumption, replace

Name = Mapping[str, Any]  # what an answer is told apart by: {"gpu": "l40s", "tp": 2}
SELF_EVIDENT = ("model", "gpu", "deployment")  # whose values need no word before them
MOST_NAMED = 4


def gathered(found: Iterable[tuple[Name, Iterable[Assumption]]]) -> tuple[Assumption, ...]:
    """Each assumption once, with the answers that it holds for unless it holds for all.

    >>> one, two = (Assumption(name="price", value=v, why="list price") for v in (1.5, 4.0))
    >>> rows = [({"gpu": "l40s", "tp": 1}, [one]), ({"gpu": "l40s", "tp": 2}, [one]), ({"gpu": "h200", "tp": 1}, [two])]
    >>> [assumption.why for assumption in gathered(rows)]
    ['list price (l40s)', 'list price (h200)']
    """
    answers = [(name, dict.fromkeys(assumptions)) for name, assumptions in found]
    order = dict.fromkeys(assumption for _, assumptions in answers for assumption in assumptions)
    return tuple(_said(one, [(name, one in assumptions) for name, assumptions in answers]) for one in order)


def _said(assumption: Assumption, answers: Sequence[tuple[Name, bool]]) -> Assumption:
    if all(held for _, held in answers):
        return assumption
    holders = [name for name, held in answers if held]
    named = _by_one_key(holders, answers) or list(dict.fromkeys(words(name) for name in holders))
    said = ", ".join(named) if len(named) <= MOST_NAMED else f"{len(holders)} of {len(answers)}"
    return replace(assumption, why=f"{assumption.why} ({said})")


def _by_one_key(holders: Sequence[Name], answers: Sequence[tuple[Name, bool]]) -> list[str]:
    """The values of the one key that tells the holders from the rest; none where no single key does."""
    for key in holders[0]:
        values = list(dict.fromkeys(name[key] for name in holders))
        if all(held for name, held in answers if name[key] in values):
            return [words({key: value}) for value in values]
    return []


def words(name: Name) -> str:
    """
    >>> words({"gpu": "l40s", "tensor-parallel-size": 2})
    'l40s, tp 2'
    """
    return ", ".join(_word(SHORT.get(key, key), value) for key, value in name.items())


def _word(key: str, value: Any) -> str:
    if value is None:
        return f"default {key}"
    return str(value) if key in SELF_EVIDENT else f"{key} {value}"
