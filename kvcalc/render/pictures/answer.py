"""One answer as a picture or a small page: `--format svg|png|html` of every command that draws."""

from collections.abc import Sequence
from html import escape

from kvcalc.errors import KvcalcError
from kvcalc.render.page import Bars, Plot
from kvcalc.render.pictures.chart import of_block, stacked
from kvcalc.render.pictures.document import document, figure_html
from kvcalc.render.pictures.draw import png, svg
from kvcalc.render.pictures.figure import of_bars, of_plot
from kvcalc.render.pictures.library import Library
from kvcalc.render.pictures.palette import colours, variables

WIDTH = 640  # pixels of the frame of a picture


def drawn(title: str, blocks: Sequence[Plot | Bars], kind: str) -> bytes:
    """The file.

    Raises:
        KvcalcError: there is nothing to draw.
    """
    if not blocks:
        raise KvcalcError(f"there is nothing to draw: {title}", hint="a single point is no curve; leave --format out")
    if kind == "html":
        return _page(title, blocks)
    colour = colours()
    heads = [block if block.title else block._replace(title=title) for block in blocks]
    spec = stacked([of_block(block, colour) for block in heads], colour, WIDTH)
    return svg(spec) if kind == "svg" else png(spec)


def _page(title: str, blocks: Sequence[Plot | Bars]) -> bytes:
    colour = variables()
    figures = [
        (f"figure-{i}", of_plot(block, colour) if isinstance(block, Plot) else of_bars(block, colour))
        for i, block in enumerate(blocks, 1)
    ]
    body = "".join(figure_html(name, figure, "h2") for name, figure in figures)
    head = f"<header><h1>{escape(title)}</h1></header>"
    with Library() as library:
        return document(title, f"{head}<main>{body}</main>", figures, library)
