"""Specs → SVG, PNG and self-contained HTML, by vl-convert: no browser and no network (the extra `report`)."""

from importlib.util import find_spec
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.render.pictures.chart import Spec

PNG_SCALE = 2  # pixels of the file for one of the picture


def require(what: str) -> None:
    """Raise KvcalcError where the extra is not installed, before any work."""
    if find_spec("vl_convert") is None:
        raise KvcalcError(
            f"{what} needs vl-convert-python, which is not installed", hint="pip install 'kvcalc[report]'"
        )


def svg(spec: Spec) -> bytes:
    """The picture as SVG."""
    return str(_converter().vegalite_to_svg(spec, show_warnings=False)).encode()


def png(spec: Spec) -> bytes:
    """The picture as PNG, sharp on a dense screen."""
    return bytes(_converter().vegalite_to_png(spec, scale=PNG_SCALE, show_warnings=False))


def _converter() -> Any:
    import vl_convert

    return vl_convert
