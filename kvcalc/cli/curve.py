"""`kvcalc curve`."""

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, TARGETS, WORKLOAD
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import FORMATS, Output
from kvcalc.errors import KvcalcError

_SWEPT = ("gpu", "tensor_parallel_size", "batch", "concurrency", "context", "input_len", "output_len")


_SAYS = {
    "batch": "Sequences in the step; may be repeated. Default: powers of two up to what fits.",
    "concurrency": "Clients of each replica; may be repeated. Default: powers of two up to what runs at once.",
    "context": "Cached tokens per sequence; may be repeated. Default: max_model_len.",
    "format": "table, json, csv, md, svg or png.",
}


@takes(GPU, WORKLOAD, SERVED, TARGETS, SERVING, OUTPUT, repeated=frozenset(_SWEPT), says=_SAYS)
def command(model: ModelArgument, flags: Flags) -> None:
    """Throughput, time per token and cost over batch, context, lengths or GPUs: table, plot, CSV, SVG, PNG.

    \b
      kvcalc curve llama-3-8b --gpu h100-sxm --context 2048
      kvcalc curve llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --tpot 30ms
      kvcalc curve llama-3-8b --gpu h100-sxm --gpu h200-sxm --tpot 50ms
      kvcalc curve llama-3-70b --gpu h100-sxm -tp 4 -tp 8 -f svg -o curve.svg
      kvcalc curve llama-3-8b --gpu h100-sxm --batch 64 --context 1k --context 4k
    """
    output = Output(flags, formats=(*FORMATS, "svg", "png"))
    if output.format in ("svg", "png") and output.path is None:
        raise KvcalcError(f"--format {output.format} needs a file", hint="name one with -o; - is stdout")
    from kvcalc.answers.curve.answer import curve
    from kvcalc.render.pages.curve import page, plot, rows

    report = curve(model, {name: flags.pop(name) for name in _SWEPT if name in flags}, flags)
    if output.format in ("svg", "png"):
        from kvcalc.render.plot import image

        output.write(image(plot(report), output.format))
        return
    output.emit(report, "curve", page, rows)
