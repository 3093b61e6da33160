"""Figures → one HTML page that holds everything it needs: no request leaves it."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from kvcalc import __version__
from kvcalc.render.pictures.chart import SCHEMA, Spec, config
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.library import Library
from kvcalc.render.pictures.palette import style_sheet, variables

HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'


def document(title: str, body: str, figures: Sequence[tuple[str, Figure]], library: Library) -> bytes:
    """The page: its text, its figures by their ids, and the JavaScript that draws them."""
    made = library.made([_styled(spec) for _, figure in figures for spec in figure.specs])
    specs = iter(made.specs)
    data = {name: _data(figure) | {"specs": [next(specs) for _ in figure.specs]} for name, figure in figures}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    style = style_sheet() + _file("page.css")
    parts = [
        f'<!doctype html>\n<html lang="en"><head>{HEAD}<title>{escape(title)}</title>',
        f'<meta name="generator" content="kvcalc {__version__}"><style>{style}</style></head>\n<body>{body}',
        f'<script type="application/json" id="figure-data">{text}</script>',
        f"<script>{_script(made.javascript)}</script>\n<script>{_script(_file('page.js'))}</script></body></html>\n",
    ]
    return "\n".join(parts).encode()


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    return text.replace("</script", "<\\/script")


def _data(figure: Figure) -> dict[str, Any]:
    """What the page's script needs of a figure; rows as columns, for they are most of the page."""
    return {
        "rows": _packed(figure.rows),
        "numbers": _packed(figure.numbers),
        "controls": [
            {"name": one.name, "values": one.values, "labels": _labels(one), "at": one.at} for one in figure.controls
        ],
        "table": {"of": figure.tabled, "filter": figure.filter, "columns": [_column(one) for one in figure.columns]},
        "readout": [_column(one) | {"filter": one.filter} for one in figure.readout],
    }


def _packed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {"columns": names, "rows": [[row.get(name) for name in names] for row in rows]}


def _column(column: Column) -> dict[str, Any]:
    usual = Column("", "")
    kept = ("factor", "left", "digits")
    said = {name: getattr(column, name) for name in kept if getattr(column, name) != getattr(usual, name)}
    return {"field": column.field, **said}


def _styled(spec: Spec) -> Spec:
    """In the page's colours, its rows left out: the figure has them once."""
    bare = {**spec, "$schema": SCHEMA, "data": {"name": spec["data"]["name"]}, "background": None}
    return {**bare, "config": {**config(variables()), "aria": False}}


def figure_html(name: str, figure: Figure, heading: str = "h3") -> str:
    """A figure's place in a page: controls, numbers, pictures, and the table as it is at the start."""
    views = "".join(
        f'<div class="view" role="img" aria-label="{escape(spec.get("description") or figure.title)}"></div>'
        for spec in figure.specs
    )
    controls = "".join(_control(one, f"{name}-{one.name}") for one in figure.controls)
    numbers = "".join(
        f'<span>{escape(one.heading)} <b data-field="{i}">{escape(_cell(_first(figure, one.filter), one))}</b></span>'
        for i, one in enumerate(figure.readout)
    )
    parts = [
        f"<{heading}>{escape(figure.title)}</{heading}>" if figure.title else "",
        f"<p>{escape(figure.says)}</p>" if figure.says else "",
        f'<figure id="{name}">',
        f'<div class="controls">{controls}</div>' if controls else "",
        f'<div class="readout" aria-live="polite">{numbers}</div>' if numbers else "",
        f'<div class="{figure.layout}">{views}</div>' if figure.layout else views,
        f"<details><summary>The figure as a table</summary>{_table(figure)}</details>",
        terminal(figure.commands),
        "</figure>",
    ]
    return "".join(parts)


def terminal(commands: Sequence[str]) -> str:
    """The lines that give the same, folded away."""
    if not commands:
        return ""
    lines = escape("\n".join(commands))
    return f'<details><summary>The same in a terminal</summary><pre tabindex="0">{lines}</pre></details>'


def _labels(control: Control) -> tuple[str, ...]:
    return control.labels or tuple(f"{value:,}" if isinstance(value, int) else str(value) for value in control.values)


def _control(control: Control, at: str) -> str:
    """A native input with its label; `at` is its id, for an output inside a label would be what it names."""
    name, label, labels = escape(control.name), escape(control.label), _labels(control)
    if control.kind == "check":
        ticked = " checked" if control.at else ""
        return f'<label class="check"><input type="checkbox" name="{name}"{ticked}>{label}</label>'
    if control.kind == "select":
        options = "".join(
            f'<option value="{i}"{" selected" if i == control.at else ""}>{escape(text)}</option>'
            for i, text in enumerate(labels)
        )
        return f'<label for="{at}"><span>{label}</span><select id="{at}" name="{name}">{options}</select></label>'
    return (
        f'<label for="{at}"><span>{label} <output for="{at}">{escape(labels[control.at])}</output></span>'
        f'<input type="range" id="{at}" name="{name}" min="0" max="{len(labels) - 1}" step="1" '
        f'value="{control.at}" aria-valuetext="{escape(labels[control.at])}"></label>'
    )


def _chosen(figure: Figure, rows: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    state = {one.name: one.values[one.at] for one in figure.controls}
    return [row for row in rows if all(row[name] == state[name] for name in names)]


def _first(figure: Figure, names: Sequence[str]) -> dict[str, Any]:
    return next(iter(_chosen(figure, figure.numbers or figure.rows, names)), {})


def _table(figure: Figure) -> str:
    aligned = [' class="left"' if one.left else "" for one in figure.columns]
    head = "".join(f"<th{side}>{escape(one.heading)}</th>" for one, side in zip(figure.columns, aligned, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{side}>{escape(_cell(row, one))}</td>" for one, side in zip(figure.columns, aligned, strict=True)
        )
        + "</tr>"
        for row in _chosen(figure, figure.numbers if figure.tabled == "numbers" else figure.rows, figure.filter)
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(row: dict[str, Any], column: Column) -> str:
    """As page.js shows it."""
    value = row.get(column.field)
    if value is None:
        return "–"
    if not isinstance(value, int | float):
        return str(value)
    scaled = value * column.factor
    if column.digits is not None:
        return f"{scaled:,.{column.digits}f}"
    if float(value).is_integer() and column.factor == 1:
        return f"{scaled:,.0f}"
    return _significant(scaled)


def _significant(value: float) -> str:
    """Three digits without trailing zeros, but whole numbers whole.

    >>> _significant(12345.6), _significant(9.9225), _significant(0.012), _significant(2.0)
    ('12,346', '9.92', '0.012', '2')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):,.12f}".rstrip("0").rstrip(".") or "0"
