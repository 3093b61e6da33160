"""`kvcalc step`."""

from kvcalc.cli.flags import GPU, OUTPUT, SERVING, WORKLOAD
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output


@takes(GPU, WORKLOAD, SERVING, OUTPUT)
def command(model: ModelArgument, flags: Flags) -> None:
    """One decode step taken apart: bytes, FLOPs, intensity, bounds and estimate, per operator.

    \b
      kvcalc step llama-3-8b --gpu h100-sxm --batch 64 --context 2048
      kvcalc step llama-3-8b --gpu h100-sxm --engine ideal --explain
    """
    output = Output(flags)
    from kvcalc.answers.question import ask
    from kvcalc.answers.step import step
    from kvcalc.render.pages.step import page, rows

    output.emit(step(ask(model, flags)), "step", page, rows)
