"""`kvcalc compare`."""

from kvcalc.cli.flags import BASELINE, GPU, OUTPUT, OWN_NAMES, SERVED, SERVING, WORKLOAD
from kvcalc.cli.options import Flags, ModelsArgument, takes
from kvcalc.cli.output import Output

_SWEPT = frozenset(
    flag.field for flag in (*GPU, *SERVING, *WORKLOAD, *SERVED) if flag.kind == "text" and flag.field not in OWN_NAMES
)


_SERVE = "Model and flags from a serving command; several are compared."


@takes(GPU, SERVING, WORKLOAD, SERVED, BASELINE, OUTPUT, repeated=_SWEPT, says={"serve": _SERVE})
def command(models: ModelsArgument, flags: Flags) -> None:
    """The same question over several models, GPUs or values of any flag, ranked.

    \b
      kvcalc compare llama-3-8b --gpu h100-sxm --gpu h200-sxm --gpu l40s
      kvcalc compare llama-3-70b --gpu h100-sxm -tp 2 -tp 4 -tp 8
      kvcalc compare llama-3-8b qwen3-8b gemma-3-12b --gpu h100-sxm --context 8k
      kvcalc compare qwen3-8b --gpu l4 --kv-cache-dtype bf16 --kv-cache-dtype fp8
      kvcalc compare --gpu l4 --gpu l40s --serve 'vllm serve qwen3-8b'
    """
    output = Output(flags)
    from kvcalc.answers.compare.answer import compare
    from kvcalc.render.pages.compare import page, rows

    baseline = flags.pop("baseline", None)
    report = compare(models or (), flags, with_working=output.explain)
    if baseline is not None:
        from kvcalc.answers.compare.baseline import with_baseline

        report = with_baseline(report, baseline)
    output.emit(report, page, rows)
