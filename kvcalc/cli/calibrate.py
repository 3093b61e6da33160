"""`kvcalc calibrate`."""

from pathlib import Path

from kvcalc.cli.flags import OUTPUT, Flag
from kvcalc.cli.options import Flags, takes
from kvcalc.cli.output import Output
from kvcalc.cli.progress import bar
from kvcalc.units import parse_count, parse_seconds, parse_tokens

DEVICE = (
    Flag("device", ("--device",), "NAME", "cpu, cuda or cuda:1. Default: a GPU where there is one.", "Where"),
    Flag("patience", ("--patience",), "TIME", "Wait this long for a quiet moment. Default 1min.", "Where"),
)
_SHAPE = (
    Flag("dtype", ("--dtype",), "TYPE", "bf16 (default), fp16 or fp32.", "Numbers"),
    Flag("group", ("--group",), "N", "Query heads of one KV head. Default 4.", "Numbers"),
    Flag("head_dim", ("--head-dim",), "N", "Elements of a head. Default 128.", "Numbers"),
    Flag("block_size", ("--block-size",), "TOKENS", "Tokens in a page of the cache. Default 64.", "Numbers"),
)
_SPEC = (Flag("spec", ("--spec",), "FILE", "Write the GPU spec here. Default: the user's cache.", "Output"),)


@takes(DEVICE, _SHAPE, _SPEC, OUTPUT)
def command(flags: Flags) -> None:
    """This device's real bandwidth, matrix rate and latencies, saved as a GPU spec.

    \b
      kvcalc calibrate
      kvcalc calibrate --device cpu --spec my-machine.toml
      kvcalc size llama-3-8b --gpu my-machine.toml
    """
    output = Output(flags)
    from kvcalc.executor.calibrate import DEFAULT, calibrate, report_of
    from kvcalc.executor.device import open_device
    from kvcalc.executor.microbench_layer import Heads
    from kvcalc.executor.quiet import PATIENCE_S, Patience
    from kvcalc.executor.store import save
    from kvcalc.executor.timing import Bench
    from kvcalc.render.pages.calibrate import page, rows

    device = open_device(flags.get("device"))
    heads = Heads(
        dtype=flags.get("dtype", DEFAULT.dtype),
        group=parse_count(flags.get("group", str(DEFAULT.group)), "--group"),
        head_dim=parse_count(flags.get("head_dim", str(DEFAULT.head_dim)), "--head-dim"),
        page_size=parse_tokens(flags.get("block_size", str(DEFAULT.page_size)), "--block-size"),
    )
    heads.check()
    patience = parse_seconds(flags["patience"], "--patience") if "patience" in flags else PATIENCE_S
    with bar() as progress:
        result = calibrate(Bench(device, Patience(patience)), heads, progress=progress)
    result = save(result, Path(flags["spec"]) if "spec" in flags else None)
    output.emit(report_of(result), "calibrate", page, rows)
