"""`kvcalc check`."""

from pathlib import Path
from typing import Annotated

from kvcalc.cli.flags import BASELINE, OUTPUT, STRICT
from kvcalc.cli.options import Flags, Positional, takes
from kvcalc.cli.output import Output
from kvcalc.errors import EXIT_LIMIT, EXIT_OK

FileArgument = Annotated[str, Positional("FILE", "The budget.")]


@takes(STRICT, BASELINE, OUTPUT, says={"format": "table, json, csv, md, or github: annotations for a workflow."})
def command(flags: Flags, file: FileArgument = "budget.toml") -> int:
    """Do the deployments in a budget file still meet their limits? Exits with 1 if not, for CI.

    \b
      kvcalc check
      kvcalc check budget.toml --format github
      kvcalc check --baseline main.json --format md
      kvcalc check budget.toml --format md -o "$GITHUB_STEP_SUMMARY"

    \b
    A budget names deployments, by their flags, and what each must keep:

    \b
      schema = "kvcalc.budget/1"
      [[deployment]]
      name = "chat"
      model = "llama-3-8b"            # a Hub id needs @revision here
      gpu = "h100-sxm"
      input-len = 2000
      output-len = 256
      concurrency = 64
      price = 2.50
      [deployment.limit]
      fits = true
      max-tpot = "40ms"               # on the estimate's high end
      max-usd-per-mtok = 0.50
    """
    output = Output(flags)
    from kvcalc.answers.check.answer import check
    from kvcalc.catalog.budgets import read_budget
    from kvcalc.render.pages.check import annotations, page, rows

    report = check(read_budget(Path(file), strict=bool(flags.get("strict"))), with_working=output.explain)
    if "baseline" in flags:
        from kvcalc.answers.check.baseline import with_baseline

        report = with_baseline(report, flags["baseline"])
    if output.format == "github":
        output.write(annotations(report))
    else:
        output.emit(report, page, rows)
    return EXIT_OK if report.result.passed else EXIT_LIMIT
