"""The JavaScript that draws a page's figures, put together by vl-convert: run as a program, it prints it.

Only Vega, without Vega-Lite and Vega-Embed: the specs of a page are compiled before, and it is two thirds as long.
"""

import subprocess
import sys

from kvcalc.errors import KvcalcError

# vl-convert holds the sources under these names; nothing is fetched.
VEGA = 'import * as whole from "https://cdn.jsdelivr.net/npm/vega@{version}/+esm"; window.vega = whole;'
ALL = "window.vega = vegaEmbed.vega;"  # where a version of vl-convert names them otherwise: longer, the same


def bundle() -> str:
    """Takes seconds, and holds Python's lock meanwhile."""
    import vl_convert

    try:
        return str(vl_convert.javascript_bundle(VEGA.format(version=vl_convert.get_vega_version())))
    except ValueError:
        return str(vl_convert.javascript_bundle(ALL))


class Library:
    """The bundle, made by a process of its own while the figures are worked out."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvcalc.render.pictures.library"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip

    def text(self) -> str:
        """Wait for it.

        Raises:
            KvcalcError: the process failed.
        """
        text, said = self._process.communicate()
        if self._process.returncode:
            last = said.strip().splitlines()[-1:] or ["it said nothing"]
            raise KvcalcError(
                f"vl-convert gave no JavaScript: {last[0]}", hint="pip install --upgrade 'kvcalc[report]'"
            )
        return text


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(bundle())
