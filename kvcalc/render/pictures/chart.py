"""What every Vega-Lite spec shares: paper, type, axes; and how a block of a page becomes one.

A spec is a dict as https://vega.github.io/vega-lite/docs/spec.html has it. Its rows stand in `data.values`, so that a
picture, a page and the table behind it have the same numbers.
"""

from collections.abc import Iterable
from typing import Any

from kvcalc.render.page import Bars, Plot
from kvcalc.render.pictures.palette import Colours, roles

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
HEIGHT = 320  # pixels
SMALL, TEXT, TITLE = 11, 12, 14  # pixels of type
BARE: Spec = {"grid": False, "ticks": False, "domain": False}  # an axis of names alone
UPRIGHT: Spec = {"grid": False, "labelAngle": 0}


def config(colour: Colours) -> Spec:
    """Type and colours of everything that a spec does not say itself."""
    axis = {
        "labelColor": colour["muted"],
        "titleColor": colour["muted"],
        "titleFontWeight": "normal",
        "titleFontSize": TEXT,
        "labelFontSize": SMALL,
        "gridColor": colour["line"],
        "gridOpacity": 0.6,
        "domainColor": colour["line"],
        "tickColor": colour["line"],
        "titlePadding": 8,
        "labelLimit": 0,
    }
    legend = {
        "orient": "top",
        "direction": "vertical",
        "labelColor": colour["ink"],
        "labelFontSize": TEXT,
        "labelLimit": 0,
        "title": None,
        "symbolType": "circle",
        "symbolSize": 60,
    }
    title = {"color": colour["ink"], "fontSize": TITLE, "fontWeight": 600, "anchor": "start", "offset": 12}
    return {
        "font": FONT,
        "view": {"stroke": None},
        "axis": axis,
        "legend": legend,
        "title": {**title, "subtitleColor": colour["muted"], "subtitleFontSize": TEXT},
        "text": {"color": colour["ink"], "fontSize": SMALL},
        "rule": {"color": colour["magenta"], "strokeDash": [5, 4]},
        "line": {"strokeWidth": 2},
        "range": {"category": [colour[name] for name in roles()["series"]]},
    }


def quantitative(field: str, title: str | None = None, **more: Any) -> Spec:
    """The encoding of a number."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def nominal(field: str, title: str | None = None, **more: Any) -> Spec:
    """The encoding of a name, in the order of the rows."""
    return {"field": field, "type": "nominal", "title": title, "sort": None, **more}


def coloured(field: str, colours: Colours, columns: int = 3, symbol: str = "circle") -> Spec:
    """The encoding of a name by its own colour, with a legend in so many columns."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return nominal(field, scale=scale, legend={"direction": "horizontal", "columns": columns, "symbolType": symbol})


def dot(colour: str, size: int = 130) -> Spec:
    """The mark of a point."""
    return {"type": "point", "filled": True, "opacity": 1, "size": size, "color": colour}


def rows_of(values: Iterable[object], *names: str) -> list[dict[str, Any]]:
    """Fields of values as rows."""
    return [{name: getattr(one, name) for name in names} for one in values]


def chart(rows: list[dict[str, Any]], layers: list[Spec], title: str = "", height: Any = HEIGHT, **more: Any) -> Spec:
    """Layers over one set of rows, as wide as what holds them."""
    found: Spec = {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "data": {"name": "rows", "values": rows},
        "layer": layers,
        **more,
    }
    return found | ({"title": title} if title else {})


def parameters(**values: Any) -> list[Spec]:
    """Numbers and names that controls set, as a spec declares them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def chosen(*names: str) -> Spec:
    """The transform that leaves the rows of the frame which the controls choose."""
    return {"filter": " && ".join(f"datum.{name} === {name}" for name in names)}


def of_block(block: Plot | Bars, colour: Colours) -> Spec:
    """The spec of a plot or of bars."""
    if isinstance(block, Plot):
        from kvcalc.render.pictures.lines import lines

        return lines(block, colour)
    from kvcalc.render.pictures.bars import bars

    return bars(block, colour)


def stacked(specs: list[Spec], colour: Colours, width: int) -> Spec:
    """Several specs as one picture of a fixed width, below each other."""
    parts = [
        {name: value for name, value in one.items() if name != "$schema"}
        | {"width": width, "data": {"values": one["data"]["values"]}}
        for one in specs
    ]
    whole = {"$schema": SCHEMA, "background": colour["paper"], "padding": 16, "config": config(colour)}
    return whole | (parts[0] if len(parts) == 1 else {"vconcat": parts, "spacing": 32, "resolve": {"scale": {
        "color": "independent"}}})  # fmt: skip
