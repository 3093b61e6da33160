"""The working behind a page."""

from kvcalc.render.explain import with_working
from kvcalc.render.page import Page, Text, all_assumed, assumed
from kvcalc.results.base import Figure, Report
from kvcalc.specs.base import Assumption, Source, replace

FIGURE = Figure(
    name="tokens",
    value=381469,
    unit="tokens",
    formula="kv_memory_bytes // kv_bytes_per_token",
    inputs={"kv_memory_bytes": 50_000_000_000, "kv_bytes_per_token": 131072},
    source="Kwon et al. 2023 (PagedAttention), section 3",
)
SOURCE = Source(what="config.json", url="https://example.org", date="2026-11-29")
REPORT = Report(inputs={}, result={}, figures=(FIGURE,), sources=(SOURCE, SOURCE))
PAGE = Page(title="t", blocks=())


def test_a_figure_shows_its_formula_its_values_and_its_source() -> None:
    (figure, _) = with_working(PAGE, REPORT).blocks
    assert figure == Text(
        title="tokens",
        lines=(
            "= kv_memory_bytes // kv_bytes_per_token",
            "= 50_000_000_000 // 131_072",
            "= 381,469 tokens",
            "source: Kwon et al. 2023 (PagedAttention), section 3",
        ),
    )


def test_what_is_printed_is_an_expression() -> None:
    figure = with_working(PAGE, REPORT).blocks[0]
    assert isinstance(figure, Text)
    assert eval(figure.lines[1].removeprefix("= ")) == FIGURE.value


def test_a_source_is_said_once() -> None:
    blocks = with_working(PAGE, REPORT).blocks
    assert blocks[-1] == Text(title="Sources", lines=("config.json · https://example.org · 2026-11-29",))
    with_its_own = Page(title="t", blocks=(Text(title="Sources", lines=("[1] its own",)),))
    assert [block.title for block in with_working(with_its_own, REPORT).blocks] == ["Sources", "tokens"]


def test_no_value_is_said() -> None:
    report = replace(REPORT, figures=(replace(FIGURE, value=None),))
    block = with_working(PAGE, report).blocks[0]
    assert isinstance(block, Text)
    assert block.lines[2] == "= none"


def test_assumptions_read_as_sentences_and_are_said_once() -> None:
    one = Assumption(name="price", value=4.0, why="list price")
    two = Assumption(name="max_num_seqs", value=1024, why="vLLM's default")
    three = Assumption(name="nodes", value=None, why="the slower link is used")
    report = replace(REPORT, assumptions=(one, one, two, three))
    assert all_assumed(report) == (
        "--price 4: list price",
        "--max-num-seqs 1,024: vLLM's default",
        "nodes: the slower link is used",
    )
    shown = "1 more that no flag changes: --explain lists it"
    assert assumed(report) == ("--price 4: list price", "--max-num-seqs 1,024: vLLM's default", shown)
    assert assumed(replace(report, assumptions=(three,))) == ("1 assumption: --explain lists it",)
    assert with_working(PAGE._replace(notes=assumed(report)), report).notes == all_assumed(report)


def test_what_is_shown_only_with_the_working() -> None:
    more = Text(title="more", lines=("beside",))
    assert [block.title for block in with_working(PAGE._replace(more=(more,)), REPORT).blocks][:1] == ["more"]
