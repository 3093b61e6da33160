"""What has changed since an answer that was kept, on the pages of `check` and `compare`."""

from collections.abc import Callable, Iterator

from kvcalc.render.page import Block, Table, Text
from kvcalc.results.changes import Baseline, Change

SIGN = {"~": "~", "+": "+", "-": "−"}
Shown = Callable[[str, object], str]


def changes(baseline: Baseline | None, of: str, shown: Shown) -> Iterator[Block]:
    """A table of what changed, or that nothing did; nothing without a baseline.

    Args:
        baseline: what changed.
        of: what its rows are called.
        shown: a figure's value in its own unit, by its name.
    """
    if baseline is None:
        return
    if not baseline.changes:
        yield Text(lines=(f"Nothing has changed since {baseline.file}.",))
        return
    yield Table(
        title=f"Since {baseline.file}",
        columns=("", of, "figure", "before", "now", ""),
        rows=tuple(_row(one, shown) for one in baseline.changes),
        left=frozenset({0, 1, 2, 5}),
    )


def _row(one: Change, shown: Shown) -> tuple[str, ...]:
    if one.figure is None:
        return SIGN[one.mark], one.of, "", "", "", "new" if one.mark == "+" else "gone"
    before = "" if one.mark == "+" else shown(one.figure, one.before)
    after = "" if one.mark == "-" else shown(one.figure, one.after)
    return SIGN[one.mark], one.of, one.figure, before, after, moved(one)


def moved(one: Change) -> str:
    """By how much, and whether a limit broke or is kept again."""
    said = [] if one.ratio is None else [f"{one.ratio:+.1%}".replace("-", "−")]
    if one.mark != "~":
        said.append("new" if one.mark == "+" else "gone")
    if one.worse:
        said.append("BROKEN")
    elif one.passed_after and one.passed_before is False:
        said.append("kept again")
    return ", ".join(said)
