"""The working behind a page's figures: formula, values, source."""

from dataclasses import replace

from kvcalc.render.page import Page, Text
from kvcalc.reports.base import Figure, Report


def with_working(page: Page, report: Report) -> Page:
    """The page with a block for each figure, and every source."""
    blocks = [Text(lines=_lines(figure), title=figure.name) for figure in report.figures]
    if report.sources:
        lines = tuple(" · ".join(part for part in (s.what, s.url, s.date) if part) for s in report.sources)
        blocks.append(Text(lines=lines, title="Sources"))
    return replace(page, blocks=(*page.blocks, *blocks))


def _lines(figure: Figure) -> tuple[str, ...]:
    value = "none" if figure.value is None else f"{figure.value:.10g} {figure.unit}"
    return (f"= {figure.formula}", f"= {figure.substituted}", f"= {value}", f"source: {figure.source}")
