"""`kvcalc calibrate`."""

from pathlib import Path

from kvcalc.cli.files import check_writable, write_file
from kvcalc.cli.flags import GPU, OUTPUT, SERVING, Flag
from kvcalc.cli.options import Flags, takes
from kvcalc.cli.output import Output
from kvcalc.cli.progress import bar
from kvcalc.errors import KvcalcError
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
_FROM = (
    Flag("results", ("--from",), "FILE", "Results of vllm bench serve, bench_serving, llama-bench; a log of requests.",
         "Results", kind="texts"),
    Flag("model", ("--model",), "MODEL", "What was served.", "Results"),
)  # fmt: skip


# How what was measured was served; --dtype and --block-size stand above already.
_SERVED_BY = tuple(flag for flag in SERVING if flag.field not in {own.field for own in _SHAPE})


@takes(DEVICE, _SHAPE, _FROM, GPU, _SERVED_BY, _SPEC, OUTPUT)
def command(flags: Flags) -> None:
    """This device's real bandwidth, matrix rate and latencies, saved as a GPU spec; or others' results as factors.

    \b
      kvcalc calibrate --from bench.json --model llama-3.1-8b --gpu h100-sxm
      kvcalc calibrate
      kvcalc calibrate --device cpu --spec my-machine.toml
      kvcalc size llama-3-8b --gpu my-machine.toml
    """
    output = Output(flags)
    if "results" in flags:
        _from_results(flags, output)
        return
    foreign = sorted(flags.keys() - {flag.field for flag in (*DEVICE, *_SHAPE, *_SPEC, *OUTPUT)})
    if foreign:
        raise KvcalcError(
            f"{foreign[0].replace('_', '-')} describes what was measured", hint="give results: --from FILE"
        )
    from kvcalc.executor.calibrate import DEFAULT, calibrate, report_of
    from kvcalc.executor.device import open_device, sheet_of
    from kvcalc.executor.faults import told
    from kvcalc.executor.microbench_layer import Heads
    from kvcalc.executor.quiet import PATIENCE_S, Patience
    from kvcalc.executor.store import require_place, save
    from kvcalc.executor.timing import Bench
    from kvcalc.render.pages.calibrate import page, rows

    device = open_device(flags.get("device"))
    heads = Heads(
        dtype=flags.get("dtype", DEFAULT.dtype),
        group=parse_count(flags.get("group", str(DEFAULT.group)), "--group"),
        head_dim=parse_count(flags.get("head_dim", str(DEFAULT.head_dim)), "--head-dim"),
        page_size=parse_tokens(flags.get("block_size", str(DEFAULT.page_size)), "--block-size"),
    )
    heads.check(device)
    spec = Path(flags["spec"]) if "spec" in flags else None
    if spec is not None:
        check_writable(spec, "--spec")
    require_place(spec)
    patience = parse_seconds(flags["patience"], "--patience") if "patience" in flags else PATIENCE_S
    with bar() as progress, told():
        result = calibrate(Bench(device, Patience(patience)), heads, progress=progress)
    output.emit(report_of(save(result, spec), sheet_of(device)), page, rows)


def _from_results(flags: Flags, output: Output) -> None:
    """Factors from somebody's results; no device is touched."""
    from kvcalc.answers.calibrate.answer import calibrate_from
    from kvcalc.answers.device.calibration import toml_of
    from kvcalc.answers.question import ask
    from kvcalc.render.pages.calibration import page, rows

    device = sorted(flags.keys() & {flag.field for flag in (*DEVICE, *_SHAPE)})
    if device:
        raise KvcalcError(f"--{device[0].replace('_', '-')} is of a device, and --from measures none", hint="leave it")
    if "model" not in flags or "gpu" not in flags:
        raise KvcalcError("what served the results is not said", hint="add --model and --gpu, and the server's flags")
    said = {name: value for name, value in flags.items() if name not in ("results", "model", "spec")}
    asked = {name: value for name, value in said.items() if name not in {flag.field for flag in OUTPUT}}
    spec = Path(flags["spec"]) if "spec" in flags else None
    if spec is not None:
        check_writable(spec, "--spec")
    report, gpu = calibrate_from(ask(flags["model"], asked), [Path(one) for one in flags["results"]], spec)
    if spec is not None:
        write_file(spec, toml_of(gpu).encode())
    output.emit(report, page, rows)
