"""What has changed since a `compare` that was kept: rows that came or went, figures that moved."""

from collections.abc import Iterator, Mapping
from typing import Any

from kvcalc.answers.baseline import came_and_went, differs, kept
from kvcalc.answers.common_assumptions import words
from kvcalc.results.changes import Baseline, Change
from kvcalc.results.compare import CompareReport
from kvcalc.specs.base import replace

# What a row says of its deployment: the figures of its table.
FIGURES = ("fits", "kv_cache_size_tokens", "max_batch", "ttft_s", "tpot_s", "output_tokens_per_s",
           "usd_per_million_output_tokens")  # fmt: skip


def with_baseline(report: CompareReport, path: str) -> CompareReport:
    """The report, with what is otherwise than in a file that `compare --json` wrote.

    Raises:
        KvcalcError: the file is none.
    """
    old, new = _named(kept(path, "compare").get("rows", ())), _named(report.result.rows)
    changes = [change for name, row in new.items() if name in old for change in _of(name, row, old[name])]
    found = Baseline(file=path, changes=(*changes, *came_and_went(old, new)))
    return replace(report, result=replace(report.result, baseline=found))


def _named(rows: Any) -> dict[str, Mapping[str, Any]]:
    return {words(row["varies"]) or "the only row": row for row in rows if isinstance(row.get("varies"), Mapping)}


def _of(name: str, row: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Change]:
    for figure in FIGURES:
        before, after = _figure(old, figure), _figure(row, figure)
        if differs(before, after):
            yield Change(mark="~", of=name, figure=figure, before=before, after=after)


def _figure(row: Mapping[str, Any], name: str) -> Any:
    """The value that a table shows: serving's where lengths were given, else the step's."""
    found = row.get(name)
    if found is None:
        source = row.get("serving") or row.get("estimate") or row.get("bound") or {}
        found = source.get("step_time_s" if name == "tpot_s" and "step_time_s" in source else name)
    return found.get("value") if isinstance(found, Mapping) else found
