"""`kvcalc size`."""

from typing import TYPE_CHECKING

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, WORKLOAD, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output
from kvcalc.errors import EXIT_LIMIT, EXIT_OK

if TYPE_CHECKING:
    from kvcalc.answers.question import Question


VERDICT = (
    Flag("fail_if_unfit", ("--fail-if-unfit",), None, "Exit with 1 when it does not fit.", "Output", kind="bool"),
)


@takes(VERDICT, GPU, SERVING, WORKLOAD, SERVED, OUTPUT)
def command(model: ModelArgument, flags: Flags) -> int:
    """Does it fit, how many tokens and sequences, how fast, what binds, what it costs.

    \b
      kvcalc size llama-3-8b --gpu h100-sxm
      kvcalc size llama-3-70b --gpu h100-sxm -tp 4 --kv-cache-dtype fp8
      kvcalc size llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --concurrency 64
      kvcalc size qwen3-8b                      the GPUs on offer, ranked
      kvcalc size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB
    """
    output = Output(flags)
    fail_if_unfit = flags.pop("fail_if_unfit", False)
    from kvcalc.answers.question import ask

    question = ask(model, flags)
    fits = _one(question, output) if question.gpu is not None else _every(question, output)
    return EXIT_LIMIT if fail_if_unfit and not fits else EXIT_OK


def _one(question: "Question", output: Output) -> bool:
    from kvcalc.answers.size.answer import size
    from kvcalc.render.pages.size import page, rows

    report = size(question, with_working=output.explain)
    output.emit(report, page, rows)
    return report.result.fits is True


def _every(question: "Question", output: Output) -> bool:
    from kvcalc.answers.size.ranking import rank
    from kvcalc.render.pages.ranking import page, rows

    report = rank(question, with_working=output.explain)
    output.emit(report, page, rows)
    return report.result.fits is True
