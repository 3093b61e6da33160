"""`kvcalc plan`."""

import os
from contextlib import nullcontext

from kvcalc.cli.flags import GPU, OUTPUT, SERVED, SERVING, TARGETS, WORKLOAD, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import Output
from kvcalc.cli.progress import bar
from kvcalc.errors import KvcalcError

LENGTHS = tuple(
    flag for flag in (*WORKLOAD, *SERVED) if flag.field in ("input_len", "output_len", "prefix_hit", "equal_lengths")
)
LOAD = (
    Flag("users", ("--users",), "N", "Users who ask, wait for the answer, and ask again.", "Load"),
    Flag("think_s", ("--think-time",), "TIME", "Of a user, between an answer and the next request.", "Load"),
    Flag("request_rate", ("--request-rate",), "R", "Requests a second.", "Load"),
    Flag("requests_per_day", ("--requests-per-day",), "N", "Requests a day.", "Load"),
    Flag("peak_factor", ("--peak-factor",), "X", "The busiest hour over the mean of the day. Default 1.", "Load"),
    Flag("trace", ("--trace",), "FILE", "Lengths and the busiest minute of a trace.", "Load"),
)
SLO = (
    Flag("ttft_s", ("--ttft",), "TIME", "Target for the time to first token: 2s.", "Targets"),
    *(flag._replace(panel="Targets") for flag in TARGETS),
    Flag("e2e_s", ("--e2e",), "TIME", "Target for the whole answer.", "Targets"),
    Flag("percentile", ("--percentile",), "P", "Simulate: P % of the requests keep the targets.", "Targets"),
    Flag("seed", ("--seed",), "N", "Of what is simulated. Default 0.", "Targets"),
    Flag("judge", ("--judge",), "END", "Of the estimate: value (default) or high, as budgets have it.", "Targets"),
)
LIMITS = (
    Flag("objective", ("--objective",), "NAME", "What is best: usd (default), gpus or tokens-per-gpu.", "Choice"),
    Flag("gpus_available", ("--gpus-available",), "GPU=N", "So many there are: h100-sxm=16.", "Choice", kind="texts"),
    Flag("max_usd_per_hour", ("--max-usd-per-hour",), "USD", "Of all replicas, at most.", "Choice"),
    Flag("emit", ("--emit",), "FORM", "Of the first: vllm, sglang, trtllm, llamacpp, compose or k8s.", "Output"),
    Flag("emit_pools", ("--emit-pools",), None, "Emit the cheapest separate pools.", "Output", kind="bool"),
    Flag("top", ("--top",), "N", "Deployments shown, and the Pareto front. Default 10.", "Choice"),
)
BUSINESS = (
    Flag(
        "utilization",
        ("--utilization",),
        "SHARE",
        "Mean load over the planned one.",
        "Cost",
    ),
    Flag("api_price", ("--api-price",), "PRICES", "Break-even with an API: input=0.5,cached=0.05,output=1.5.", "Cost"),
)
VARIED = frozenset(
    ("gpu", "tensor_parallel_size", "pipeline_parallel_size", "quantization", "kv_cache_dtype", "max_num_seqs",
     "max_num_batched_tokens", "num_speculative_tokens")
)  # fmt: skip


@takes(GPU, LENGTHS, LOAD, SLO, LIMITS, BUSINESS, SERVING, OUTPUT, repeated=VARIED,
       says={"gpu": "To choose from. Default: all GPUs with a list price."})  # fmt: skip
def command(model: ModelArgument, flags: Flags) -> None:
    """The cheapest deployments that meet a workload and its targets.

    \b
      kvcalc plan qwen3-8b --gpu l4 --isl 1k --osl 200 --request-rate 5 --ttft 1s
      kvcalc plan llama-3-8b --gpu l40s --isl 2k --osl 300 --users 50 --tpot 40ms
    """
    output = Output(flags)
    from kvcalc.answers.plan.ask import plan_from
    from kvcalc.render.pages.plan import page, rows

    with bar() if "percentile" in flags else nullcontext(_no_bar) as progress:
        report = plan_from(model, flags, progress, cores=os.cpu_count() or 1, explain=output.explain)
    if "emit" in flags and report.result.emitted is None and output.format != "json":
        raise KvcalcError(f"--emit: {' '.join(report.result.summary)}", hint="leave --emit out to see what is nearest")
    if report.result.emitted is not None and output.format != "json":
        output.write(report.result.emitted)
        if output.path in (None, "-"):
            return
        output = Output({})  # the file has the command; the answer goes to the terminal
    output.emit(report, page, rows)


def _no_bar(_what: str, _share: float) -> None:
    """A search without simulations is over before a bar would be there."""
