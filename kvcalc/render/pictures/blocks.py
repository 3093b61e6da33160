"""Blocks of a page → HTML."""

from html import escape

from kvcalc.render.page import Bars, Block, Facts, Plot, Table, Text


def block_html(block: Block) -> str:
    """A block under its title; plots are figures of their own and are left out."""
    if isinstance(block, Plot):
        return ""
    title = f"<h3>{escape(block.title)}</h3>" if block.title else ""
    return f"<section>{title}{_body(block)}</section>"


def _body(block: Table | Facts | Bars | Text) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Facts):
        return _rows([tuple(map(escape, row)) for row in block.rows])
    if isinstance(block, Bars):
        return _rows([(escape(label), escape(text), "") for label, _, text in block.rows])
    if block.title in COMMANDS:
        return f'<pre tabindex="0">{escape(chr(10).join(block.lines))}</pre>'
    return "".join(f"<p>{escape(line)}</p>" for line in block.lines)


COMMANDS = ("The command", "The same figures", "From the command")  # of blocks whose lines are to be pasted


def _rows(rows: list[tuple[str, ...]]) -> str:
    body = "".join(
        f'<tr><td class="left">{name}</td><td>{value}</td><td>{remark}</td></tr>' for name, value, remark in rows
    )
    return f'<div class="scroll" tabindex="0"><table class="facts"><tbody>{body}</tbody></table></div>'


def _table(block: Table) -> str:
    sides = [' class="left"' if i in block.left else "" for i in range(len(block.columns))]
    head = "".join(f"<th{side}>{escape(name)}</th>" for name, side in zip(block.columns, sides, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row, sides, strict=True)) + "</tr>"
        for row in block.rows
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
