"""`kvcalc step`."""

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, WORKLOAD, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output

TOKENS = (
    Flag(
        "tokens_per_step",
        ("--tokens-per-step",),
        "TOKENS",
        "A model that runs many tokens a step and keeps no cache: an emulator, block diffusion.",
        "Workload",
    ),
)


@takes(TOKENS, GPU, WORKLOAD, SERVED, SERVING, OUTPUT)
def command(model: ModelArgument, flags: Flags) -> None:
    """One decode step taken apart: bytes, FLOPs, intensity, bounds and estimate, per operator.

    \b
      kvcalc step llama-3-8b --gpu h100-sxm --batch 64 --context 2048
      kvcalc step llama-3-8b --gpu h100-sxm --engine ideal --explain
      kvcalc step emulator.toml --gpu h100-sxm --tokens-per-step 4096
    """
    output = Output(flags)
    from kvcalc.answers.step.ask import step_from
    from kvcalc.render.pages.step import page, rows

    output.emit(step_from(model, flags, explain=output.explain), page, rows)
