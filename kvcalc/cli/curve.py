"""`kvcalc curve`."""

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, TARGETS, WORKLOAD
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import DRAWN, FORMATS, PICTURES, Output

_SWEPT = ("gpu", "tensor_parallel_size", "batch", "concurrency", "context", "input_len", "output_len")


_SAYS = {
    "batch": "Sequences in the step; may be repeated. Default: powers of two up to what fits.",
    "concurrency": "Clients of each replica; may be repeated. Default: powers of two up to what runs at once.",
    "context": "Cached tokens per sequence; may be repeated. Default: max_model_len.",
    **DRAWN,
}


@takes(GPU, WORKLOAD, SERVED, TARGETS, SERVING, OUTPUT, repeated=frozenset(_SWEPT), says=_SAYS)
def command(model: ModelArgument, flags: Flags) -> None:
    """Throughput, time per token and cost over batch, context, lengths or GPUs: table, plot, CSV, SVG.

    \b
      kvcalc curve llama-3-8b --gpu h100-sxm --context 2048
      kvcalc curve llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --tpot 30ms
      kvcalc curve llama-3-8b --gpu h100-sxm --gpu h200-sxm --tpot 50ms
      kvcalc curve llama-3-70b --gpu h100-sxm -tp 4 -tp 8 -o curve.svg
      kvcalc curve llama-3-8b --gpu h100-sxm --batch 64 --context 1k --context 4k
    """
    output = Output(flags, formats=(*FORMATS, *PICTURES))
    from kvcalc.answers.curve.answer import curve
    from kvcalc.render.pages.curve import page, pictures, rows

    report = curve(model, {name: flags.pop(name) for name in _SWEPT if name in flags}, flags, output.explain)
    output.emit(report, page, rows, pictures)
