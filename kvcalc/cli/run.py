"""`kvcalc run`."""

from pathlib import Path
from typing import Any

from kvcalc.cli.calibrate import DEVICE
from kvcalc.cli.flags import OUTPUT, STRICT, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output
from kvcalc.cli.progress import bar
from kvcalc.errors import EXIT_LIMIT, EXIT_OK, KvcalcError
from kvcalc.units import parse_count, parse_number, parse_seconds, parse_share, parse_tokens

_WHAT = (
    Flag("batch", ("--batch",), "N", "Sequences in a step; repeat it. Default 1, 8 and 32.", "Workload"),
    Flag("context", ("--context",), "TOKENS", "Cached tokens of each; repeat it. Default 512 and 2k.", "Workload"),
    Flag("ragged", ("--ragged",), None, "Contexts that differ, with this mean.", "Workload", kind="bool"),
    Flag("layers", ("--layers",), "N", "Run the first N layers only.", "Model"),
    Flag("dtype", ("--dtype",), "TYPE", "bf16, fp16 or fp32. Default: the config's.", "Model"),
    Flag("block_size", ("--block-size",), "TOKENS", "Tokens in a page: 16 to 256. Default 64.", "Model"),
    Flag("weights", ("--weights",), "DIR", "Real weights: config.json and safetensors.", "Model"),
    Flag("prompt", ("--prompt",), "IDS", "Token ids to continue, as 1,15,7; repeat it.", "Model"),
    Flag("new_tokens", ("--new-tokens",), "N", "Tokens to generate for each prompt. Default 16.", "Model"),
    Flag("temperature", ("--temperature",), "T", "0 (default) takes the likeliest token.", "Model"),
    Flag("gpu", ("--gpu",), "GPU", "The data sheet to compare with. Default: the device's.", "Where"),
    Flag("recalibrate", ("--recalibrate",), None, "Measure the device anew first.", "Where", kind="bool"),
    Flag("tolerance", ("--tolerance",), "SHARE", "Exit with 1 where a step is further off: 0.15, 15%.", "Output"),
)
_REPEATED = frozenset({"batch", "context", "prompt"})


@takes(_WHAT, DEVICE, STRICT, OUTPUT, repeated=_REPEATED)
def command(model: ModelArgument, flags: Flags) -> int:
    """A paged decode loop on this device against the prediction, term by term.

    \b
      kvcalc run smollm2-135m
      kvcalc run llama-3-8b --layers 2 --batch 1 --batch 32 --context 2k
      kvcalc run ./Llama-3.2-1B --weights ./Llama-3.2-1B --prompt 128000,791,6864
    """
    output = Output(flags)
    from kvcalc.answers.question import ask
    from kvcalc.executor.device import open_device
    from kvcalc.executor.faults import told
    from kvcalc.executor.run import run
    from kvcalc.render.pages.run import page, rows
    from kvcalc.specs.deployment import IDEAL

    device = open_device(flags.pop("device", None))
    tolerance = parse_share(flags.pop("tolerance"), "--tolerance") if "tolerance" in flags else None
    numbers: dict[str, Any] = {name: flags.pop(name) for name in ("dtype", "gpu", "strict") if name in flags}
    question = ask(model, numbers, engine=IDEAL)
    with bar() as progress, told():
        report = run(question.model, _asked(flags, device=device, gpu=question.gpu, progress=progress))
    output.emit(report, page, rows)
    result = report.result
    off = tolerance is not None and result.accuracy.worst_error > tolerance
    return EXIT_LIMIT if off or not result.correct.passed else EXIT_OK


def _asked(flags: Flags, **more: Any) -> Any:
    from kvcalc.executor.run import Asked

    read: dict[str, Any] = {
        "batches": lambda value: tuple(dict.fromkeys(_positive(parse_count(one, "--batch")) for one in value)),
        "contexts": lambda value: tuple(dict.fromkeys(_positive(parse_tokens(one, "--context")) for one in value)),
        "layers": lambda value: parse_count(value, "--layers"),
        "page_size": lambda value: parse_tokens(value, "--block-size"),
        "weights": Path,
        "prompts": lambda value: tuple(_ids(one) for one in value),
        "new_tokens": lambda value: _positive(parse_count(value, "--new-tokens")),
        "temperature": lambda value: parse_number(value, "--temperature", "0.7"),
        "patience_s": lambda value: parse_seconds(value, "--patience"),
        "ragged": bool,
        "recalibrate": bool,
    }
    names = {"batches": "batch", "contexts": "context", "page_size": "block_size", "prompts": "prompt",
             "patience_s": "patience"}  # fmt: skip
    given = {field: parse(flags[names.get(field, field)]) for field, parse in read.items()
             if names.get(field, field) in flags}  # fmt: skip
    return Asked(**given, **more)


def _positive(value: int) -> int:
    if value < 1:
        raise KvcalcError("a batch, a context or a number of tokens is at least 1", hint="give 1 or more")
    return value


def _ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise KvcalcError(f"--prompt: {text[:40]!r} is no list of token ids", hint="write 1,15,7")
    return tuple(int(part) for part in parts)
