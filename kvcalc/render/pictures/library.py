"""What a page runs: Vega's JavaScript, put together by vl-convert, and the page's specs, compiled by it.

Both take seconds and hold Python's lock, so a process of its own begins with them while the figures are worked out. Run
as a program, this file is that process. Only Vega is in the page, without Vega-Lite and Vega-Embed: two thirds as long.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvcalc.errors import KvcalcError

# vl-convert holds the sources under these names; nothing is fetched.
VEGA = 'import * as whole from "https://cdn.jsdelivr.net/npm/vega@{version}/+esm"; window.vega = whole;'
ALL = "window.vega = vegaEmbed.vega;"  # where a version of vl-convert names them otherwise: longer, the same
SMALLEST = {"data": {"values": []}, "mark": "bar", "encoding": {}}


class Made(NamedTuple):
    """For one page."""

    javascript: str
    specs: list[dict[str, Any]]  # Vega, in the order of the Vega-Lite ones


class Library:
    """The process: started early, asked for the page's specs once they are there, ended with the `with`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvcalc.render.pictures.library"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )  # fmt: skip

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left running where there is no page to make."""
        self._process.kill()
        self._process.communicate()

    def made(self, specs: Sequence[dict[str, Any]]) -> Made:
        """Wait for it.

        Raises:
            KvcalcError: the process failed.
        """
        text, said = self._process.communicate(json.dumps(specs, allow_nan=False))
        if self._process.returncode:
            last = said.strip().splitlines()[-1:] or ["it said nothing"]
            raise KvcalcError(f"vl-convert failed: {last[0]}", hint="pip install --upgrade 'kvcalc[report]'")
        return Made(*json.loads(text))


def main() -> None:
    """Bundle, warm the compiler up, then read specs from standard input and print both as JSON."""
    import vl_convert

    try:
        javascript = vl_convert.javascript_bundle(VEGA.format(version=vl_convert.get_vega_version()))
    except ValueError:
        javascript = vl_convert.javascript_bundle(ALL)
    vl_convert.vegalite_to_vega(SMALLEST)
    specs = [vl_convert.vegalite_to_vega(one, show_warnings=False) for one in json.load(sys.stdin)]
    json.dump([javascript, specs], sys.stdout)


if __name__ == "__main__":
    main()
