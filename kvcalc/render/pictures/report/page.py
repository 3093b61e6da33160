"""What `kvcalc report` writes: one page of the answers, the six figures, and the formulas with their values."""

from collections.abc import Iterator
from html import escape

from kvcalc import __version__
from kvcalc.render.explain import lines as working
from kvcalc.render.page import all_assumed, sources
from kvcalc.render.pages import plan as plan_page
from kvcalc.render.pages import size as size_page
from kvcalc.render.pictures.blocks import block_html
from kvcalc.render.pictures.document import document, figure_html, terminal
from kvcalc.render.pictures.figure import Figure
from kvcalc.render.pictures.library import Library
from kvcalc.render.pictures.palette import variables
from kvcalc.render.pictures.report import explorer, pool, prompts, rounds, sampling, schedules
from kvcalc.render.pictures.report.tiles import tiles
from kvcalc.results.plan import PlanReport
from kvcalc.results.report import ReportReport
from kvcalc.results.size import SizeReport

SECTIONS = (("answer", "Size"), ("plan", "Plan"), ("figures", "Figures"), ("formulas", "Formulas"),
            ("assumed", "Assumed"))  # fmt: skip


def page(report: ReportReport, library: Library) -> bytes:
    """The file."""
    result = report.result
    sized = size_page.page(SizeReport(inputs=report.inputs, result=result.size))
    figures = list(_figures(report))
    missing = {one.part: one.why for one in result.omitted}
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in SECTIONS)
    mood = "" if sized.good is None else "good" if sized.good else "bad"
    parts = [
        f'<header><h1>{escape(sized.title)}</h1><p class="lead"><b class="{mood}">{escape(sized.verdict)}</b></p>',
        f'<nav aria-label="Sections">{links}</nav></header><main>',
        tiles(result.size),
        '<h2 id="answer">What it holds, how fast it is, what it costs</h2><div class="blocks">',
        *(block_html(block) for block in (*sized.blocks, *sized.more)),
        f"</div>{terminal([result.commands['size']])}",
        '<h2 id="plan">The cheapest deployments for a workload</h2>',
        *_plan(report, missing.get("plan")),
        '<h2 id="figures">Figures to move</h2>',
        *(figure_html(name, figure) for name, figure in figures),
        *(f"<h3>{escape(_TITLES[part])}</h3><p>Not shown: {escape(why)}.</p>" for part, why in missing.items()
          if part in _TITLES),
        '<h2 id="formulas">Formulas with their values</h2>',
        '<div class="formulas">',
        *_formulas(report),
        "</div>",
        '<h2 id="assumed">What is assumed, and where the figures are from</h2>',
        _notes(all_assumed(report)),
        _notes(sources(report).lines),
        f"</main><footer><p>kvcalc {__version__}. Every figure is in the JSON of the command beside it.</p></footer>",
    ]  # fmt: skip
    return document(sized.title, "".join(parts), figures, library)


_TITLES = {
    "explorer": "Batch and roofline explorer",
    "schedules": "Static against continuous batching",
    "pool": "One piece a request against pages",
    "rounds": "Speculative rounds",
    "prompts": "A long prompt: chunks and disaggregation",
}


def _figures(report: ReportReport) -> Iterator[tuple[str, Figure]]:
    """Those that this deployment has, in the order of the lessons."""
    result, lines, colour = report.result, report.result.commands, variables()
    if result.explorer is not None:
        yield "explorer", explorer.figure(result.explorer, lines["explorer"], colour)
    if result.schedules is not None:
        both = tuple(lines[name] for name in ("static", "continuous") if name in lines)
        yield "schedules", schedules.figure(result.schedules, both, colour)
    if result.pool is not None:
        yield "pool", pool.figure(result.pool, (lines["contiguous"], lines["paged"], lines["crowded"]), colour)
    yield "sampling", sampling.figure(result.sampling, colour)
    if result.rounds is not None:
        yield "rounds", rounds.figure(result.rounds, lines["rounds"], colour)
    if result.prompts is not None:
        yield "prompts", prompts.figure(result.prompts, lines["prompts"], colour)


def _plan(report: ReportReport, why_not: str | None) -> Iterator[str]:
    result = report.result
    if result.plan is None:
        yield f"<p>No plan: {escape(why_not or 'nothing was found')}.</p>"
        return
    found = plan_page.page(PlanReport(inputs={}, result=result.plan))
    yield f"<p>{escape(found.title)}: {escape(found.verdict)}.</p>"
    yield from (block_html(block) for block in (*found.blocks, *found.more))
    yield terminal([result.commands["plan"]])


def _formulas(report: ReportReport) -> Iterator[str]:
    """Name and value of each, its working folded away."""
    for one in report.figures:
        formula, values, value, source = map(escape, working(one))
        said = f"<span>{escape(one.name)}</span><b>{value.removeprefix('= ')}</b>"
        yield (
            f"<details><summary>{said}</summary><p><code>{formula}</code></p>"
            f'<p><code>{values}</code></p><p class="lead">{source}</p></details>'
        )


def _notes(lines: tuple[str, ...]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'
