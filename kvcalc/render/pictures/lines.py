"""Lines in one frame, each point with what it stands for, and the targets."""

import json
from typing import Any

from kvcalc.render.page import Plot, Target
from kvcalc.render.pictures.chart import Spec, chart, nominal, quantitative
from kvcalc.render.pictures.palette import Colours

MOST_MARKS = 40  # labelled points of one plot: beyond, they would cover each other


def lines(plot: Plot, colour: Colours) -> Spec:
    """The spec of a plot: a line a series, labelled points, and a rule a target."""
    rows = [
        {"series": series.label, "x": x, "y": y, "mark": mark}
        for series in plot.series
        for x, y, mark in zip(series.x, series.y, series.marks or ("",) * len(series.x), strict=True)
    ]
    several = len(plot.series) > 1
    marked = any(one.marks for one in plot.series)
    x = quantitative(
        "x",
        plot.x_label,
        scale=_places(len(plot.x_names)) if plot.x_names else _scale(plot.log_x),
        axis={**axis(plot.log_x, plot.x_names), "grid": False},
    )
    y = quantitative("y", plot.y_label, scale=_scale(plot.log_y), axis=axis(plot.log_y))
    series = {
        "color": nominal("series", legend={"symbolType": "circle" if marked else "stroke"})
        if several
        else {"value": colour["blue"]}
    }
    tooltip = [nominal("series", "line"), nominal("mark", "point"), quantitative("x", plot.x_label, format=",.4~g"),
               quantitative("y", plot.y_label, format=",.4~g")]  # fmt: skip
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "point": {"size": 36, "filled": True} if marked else False},
            "encoding": {"x": x, "y": y, **series, "order": {"value": None}, "tooltip": tooltip},
        }
    ]
    layers = _with_dots(layers, plot)
    if marked and sum(len(one.marks) for one in plot.series) <= MOST_MARKS:
        layers += labels({"x": x, "y": y, "text": nominal("mark")}, colour, dx=6, dy=-7)
    layers += [layer for target in plot.targets for layer in rule(target, colour)]
    said = f"points: {plot.points}" if marked and plot.points else ""
    description = f"{plot.y_label} against {plot.x_label}" + (f"; {said}" if said else "")
    title: Spec = {"title": {"text": plot.title, "subtitle": said}} if plot.title and said else {}
    return chart(rows, layers, plot.title, description=description) | title


def _with_dots(layers: list[Spec], plot: Plot) -> list[Spec]:
    """A layer of points for the series that no line joins."""
    joined: Spec = {"field": "series", "oneOf": [one.label for one in plot.series if not one.dots]}
    if not any(one.dots for one in plot.series):
        return layers
    line = {"transform": [{"filter": joined}], **layers[0]}
    encoding = {name: value for name, value in layers[0]["encoding"].items() if name != "order"}
    mark = {"type": "point", "filled": True, "size": 30, "opacity": 0.9}
    return [line, {"transform": [{"filter": {"not": joined}}], "mark": mark, "encoding": encoding}, *layers[1:]]


def labels(encoding: Spec, colour: Colours, **place: Any) -> list[Spec]:
    """Text that stays legible over lines: first its outline in the colour of the paper."""
    text = {"type": "text", "align": "left", "color": colour["muted"], **place}
    outline = {"stroke": colour["paper"], "strokeWidth": 3, "strokeJoin": "round", "opacity": 0.85}
    return [{"mark": mark, "encoding": encoding} for mark in ({**text, **outline}, text)]


def rule(target: Target, colour: Colours) -> list[Spec]:
    """A target: a dashed line across the frame, and its name beside it."""
    at: dict[str, Any] = {target.axis: {"datum": target.value, "type": "quantitative"}}
    across = target.axis == "y"
    place: Spec = {"x": {"value": {"expr": "width"}}} if across else {"y": {"value": 0}}
    label = {"type": "text", "color": colour["magenta"], "fontWeight": 600, "align": "left"}
    offset = {"dx": 6} if across else {"dx": -4, "dy": -8}
    return [
        {"data": {"values": [{}]}, "mark": "rule", "encoding": at},
        {
            "data": {"values": [{}]},
            "mark": {**label, **offset},
            "encoding": {**at, **place, "text": {"value": target.label}},
        },
    ]


def _scale(log: bool) -> Spec:
    return {"type": "log", "nice": False, "padding": 16} if log else {"zero": True}


def _places(count: int) -> Spec:
    return {"domain": [0.75, count + 0.5], "nice": False, "zero": False}


def axis(log: bool = False, names: tuple[str, ...] = ()) -> Spec:
    """Ticks in plain numbers, or names at 1, 2, 3 ...; of a logarithm only the labelled ticks have a line."""
    if names:
        named = f"{json.dumps(names, ensure_ascii=False)}[datum.value - 1]"
        return {"values": list(range(1, len(names) + 1)), "labelExpr": named, "labelOverlap": True}
    if not log:
        return {"tickCount": 6, "labelExpr": "format(datum.value, ',')"}
    opacity = {"condition": {"test": "datum.label === ''", "value": 0}, "value": 0.6}
    return {"labelExpr": "datum.label === '' ? '' : format(datum.value, ',')", "gridOpacity": opacity}
