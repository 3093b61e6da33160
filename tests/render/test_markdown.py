"""Pages as Markdown."""

from kvcalc.render.markdown import render
from kvcalc.render.page import Bars, Facts, Page, Plot, Series, Table, Text


def test_a_whole_page() -> None:
    page = Page(
        title="llama on 1 × H100",
        verdict="fits",
        good=True,
        blocks=(
            Facts(title="Memory", rows=(("pool", "1 GiB", "given"),)),
            Table(columns=("GPU", "step"), rows=(("l4", "7 ms"),)),
            Bars(rows=(("cache", 0.5, "2 GiB"),)),
            Text(title="Change", lines=("do this",)),
        ),
        notes=("price 2: given",),
    )
    assert (
        render(page)
        == """\
## llama on 1 × H100 — fits

### Memory

| | | |
|---|---:|---|
| pool | 1 GiB | given |

| GPU | step |
|---|---:|
| l4 | 7 ms |

| | |
|---|---:|
| cache | 2 GiB |

### Change

- do this

**Assumed**

- price 2: given
"""
    )


def test_what_would_break_a_table_is_escaped() -> None:
    table = Table(columns=("per token\nat first", "a|b"), rows=(("x|y", "z\nw"),))
    assert "| per token at first | a\\|b |" in render(Page(title="t", blocks=(table,)))
    assert "| x\\|y | z w |" in render(Page(title="t", blocks=(table,)))


def test_a_plot_is_text_in_a_fence() -> None:
    plot = Plot(series=(Series("a", (1.0, 2.0), (3.0, 4.0)),), x_label="x", y_label="y")
    lines = render(Page(title="t", blocks=(plot,))).splitlines()
    assert lines[2] == "```text"
    assert lines[-1] == "```"
    assert "y (up) against x (across)" in lines[3]
