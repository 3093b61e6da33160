"""`kvcalc report`."""

from typing import Any

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, WORKLOAD
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output
from kvcalc.cli.plan import LOAD, SLO

TARGETS = tuple(flag for flag in SLO if flag.field != "judge")
OWN = (*LOAD, *(flag for flag in TARGETS if flag.field == "e2e_s"))
_SAYS = {
    "format": "html (default) or json.",
    "output": "Write to FILE.html; - is stdout.",
    "explain": "With json: each figure's formula, values and source. The page has them.",
}


@takes(GPU, SERVING, WORKLOAD, SERVED, LOAD, TARGETS, OUTPUT, says=_SAYS)
def command(model: ModelArgument, flags: Flags) -> None:
    """One self-contained page: the answers of size and plan, formulas with values, six figures with their controls.

    \b
      kvcalc report llama-3-8b --gpu h100-sxm -o llama.html
      kvcalc report deepseek-v3 --gpu h200-sxm -tp 8 --isl 4k --osl 500 -o a.html
    """
    output = Output(flags, formats=("html", "json"), usual="html")
    own: dict[str, Any] = {flag.field: flags.pop(flag.field) for flag in OWN if flag.field in flags}
    if output.format == "json":
        from kvcalc.answers.report.answer import report

        output.write(output.announced(report(model, flags, own)).to_json(explain=True))
        return
    from kvcalc.render.pictures.library import Library

    with Library() as library:  # a process of its own, that works on it meanwhile
        from kvcalc.answers.report.answer import report
        from kvcalc.render.pictures.report.page import page

        output.write(page(output.announced(report(model, flags, own)), library))
