"""`kvcalc size`."""

from typing import Annotated

import typer

from kvcalc.cli.flags import CONCURRENCY, GPU, OUTPUT, SERVING, WORKLOAD
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output
from kvcalc.errors import EXIT_LIMIT, EXIT_OK


@takes(GPU, SERVING, WORKLOAD, CONCURRENCY, OUTPUT)
def command(
    model: ModelArgument,
    flags: Flags,
    fail_if_unfit: Annotated[
        bool, typer.Option("--fail-if-unfit", help="Exit with 1 when it does not fit.", rich_help_panel="Output")
    ] = False,
) -> int:
    """Does it fit, how many tokens and sequences, how fast, what binds, what it costs.

    \b
      kvcalc size llama-3-8b --gpu h100-sxm
      kvcalc size llama-3-70b --gpu h100-sxm -tp 4 --kv-cache-dtype fp8
      kvcalc size llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --concurrency 64
      kvcalc size qwen3-8b                      every GPU, ranked
      kvcalc size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB
    """
    output = Output(flags)
    from kvcalc.answers.question import ask
    from kvcalc.answers.ranking import rank
    from kvcalc.answers.size import size
    from kvcalc.render.pages.size import page, rows

    question = ask(model, flags)
    report = size(question, with_working=output.explain) if question.gpu is not None else rank(question, output.explain)
    output.emit(report, "size", page, rows)
    return EXIT_LIMIT if fail_if_unfit and not report.result.fits else EXIT_OK
