"""The working behind a page's figures: formula, values, source."""

from kvcalc.render.page import Page, Text, all_assumed, sources
from kvcalc.results.base import Figure, Report


def with_working(page: Page, report: Report) -> Page:
    """The page with what it leaves out else, a block for each figure, every source and every assumption."""
    blocks = [Text(lines=lines(figure), title=figure.name) for figure in report.figures]
    if report.sources and not any(block.title == "Sources" for block in page.blocks):
        blocks.append(sources(report))
    return page._replace(blocks=(*page.blocks, *page.more, *blocks), notes=all_assumed(report))


def lines(figure: Figure) -> tuple[str, str, str, str]:
    """The formula, the same with the values put in, the value, and the source."""
    value = "none" if figure.value is None else f"{_number(figure.value)} {figure.unit}"
    return (f"= {figure.formula}", f"= {figure.substituted}", f"= {value}", f"source: {figure.source}")


def _number(value: float) -> str:
    """
    >>> _number(33_240_391_680.0), _number(0.009922504979104478)
    ('33,240,391,680', '0.009922504979')
    """
    whole = float(value).is_integer() and abs(value) < 10**15
    return f"{int(value):,}" if whole else f"{value:.10g}"
