"""Labelled bars, each with its text at the end."""

from kvcalc.render.page import Bars
from kvcalc.render.pictures.chart import Spec, chart, nominal, quantitative
from kvcalc.render.pictures.palette import Colours

BAR = 26  # pixels of a bar and its space


def bars(block: Bars, colour: Colours) -> Spec:
    """The spec of bars: shares of the longest, the text that a page has beside each."""
    rows = [{"label": label, "share": share, "text": text} for label, share, text in block.rows]
    place = {"y": nominal("label", axis={"ticks": False, "domain": False, "labelColor": colour["ink"]})}
    length = {"x": quantitative("share", axis=None, scale={"domain": [0, 1.25], "nice": False})}
    layers: list[Spec] = [
        {"mark": {"type": "bar", "height": 14, "color": colour["blue"]}, "encoding": {**place, **length}},
        {
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {**place, **length, "text": nominal("text")},
        },
    ]
    return chart(rows, layers, block.title, height=BAR * max(1, len(rows)))
