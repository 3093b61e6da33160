"""`kvcalc prefill`."""

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, TARGETS, WORKLOAD, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output

_PANEL = "Prefill"
PREFILL = (
    Flag(
        "chunk",
        ("--chunk",),
        "TOKENS",
        "Prompt tokens per step. Default: max_num_batched_tokens less one per decoding sequence.",
        _PANEL,
    ),
    Flag(
        "compute_efficiency",
        ("--compute-efficiency",),
        "SHARE",
        "Share of the peak that the bound computes at.",
        _PANEL,
    ),
    Flag(
        "host_bandwidth",
        ("--host-bandwidth",),
        "RATE",
        "To the host's memory, one way: 50GB/s. Default: the spec's link.",
        _PANEL,
    ),
)


@takes(GPU, WORKLOAD, SERVED, TARGETS, PREFILL, SERVING, OUTPUT)
def command(model: ModelArgument, flags: Flags) -> None:
    """Time to first token, free chunk, the spike of a long prompt, transfers, swap against recompute.

    --input-len is the prompt, run alone; --batch and --context are the sequences that decode beside it.

    \b
      kvcalc prefill llama-3-8b --gpu h100-sxm --isl 32K --batch 64 --context 1k
      kvcalc prefill llama-3-8b --gpu h100-sxm --isl 4k --osl 256 --tpot 30ms
      kvcalc prefill llama-3-8b --gpu h100-sxm --isl 8k --prefix-hit 6k
      kvcalc prefill llama-3-8b --gpu h100-sxm --isl 2048 --engine ideal
    """
    output = Output(flags)
    from kvcalc.answers.prefill.ask import prefill_from
    from kvcalc.render.pages.prefill import page, rows

    output.emit(prefill_from(model, flags, explain=output.explain), page, rows)
