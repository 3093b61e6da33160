"""Page → Markdown."""

from kvcalc.render.page import Bars, Block, Facts, Page, Plot, Table


def render(page: Page) -> str:
    """Headings, pipe tables and lists."""
    verdict = f" — {page.verdict}" if page.verdict else ""
    parts = [f"## {_safe(page.title)}{verdict}"]
    for block in page.blocks:
        if block.title:
            parts.append(f"### {_safe(block.title)}")
        parts.append("\n".join(_lines(block)))
    if page.notes:
        parts.append("\n".join(["**Assumed**", "", *(f"- {_safe(note)}" for note in page.notes)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _safe(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_safe(cell) for cell in cells) + " |"


def _lines(block: Block) -> list[str]:
    if isinstance(block, Plot):
        from kvcalc.render.plot import terminal_lines

        return ["```text", *terminal_lines(block, 80, colour=False), "```"]
    if isinstance(block, Table):
        rule = "|" + "|".join("---" if i in block.left else "---:" for i in range(len(block.columns))) + "|"
        return [_row(block.columns), rule, *(_row(row) for row in block.rows)]
    if isinstance(block, Facts):
        return ["| | | |", "|---|---:|---|", *(_row(row) for row in block.rows)]
    if isinstance(block, Bars):
        return ["| | |", "|---|---:|", *(_row((label, text)) for label, _, text in block.rows)]
    return [f"- {_safe(line)}" for line in block.lines]
