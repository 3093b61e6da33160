"""`kvcalc simulate`."""

from pathlib import Path
from typing import Any, Literal

from kvcalc.cli.files import check_writable, write_file
from kvcalc.cli.flags import CONCURRENCY, GPU, OUTPUT, SERVING, TARGETS, Flag
from kvcalc.cli.options import Flags, ModelArgument, takes
from kvcalc.cli.output import DRAWN, FORMATS, PICTURES, Output
from kvcalc.cli.progress import bar
from kvcalc.errors import KvcalcError


def _flag(panel: str, field: str, name: str, metavar: str | None, help: str,
          kind: Literal["text", "switch", "bool"] = "text") -> Flag:  # fmt: skip
    return Flag(field, (name,), metavar, help, panel, kind)


LENGTHS = (
    Flag("input_len", ("--input-len", "--isl"), "TOKENS", "Prompt tokens: 512, or 100-2000 for any.", "Requests"),
    Flag("output_len", ("--output-len", "--osl"), "TOKENS", "Output tokens, written the same way.", "Requests"),
)
TRAFFIC = (
    _flag("Requests", "requests", "--requests", "N", "How many. Default: 1,000, or ten times the clients."),
    _flag("Requests", "request_rate", "--request-rate", "R", "Requests per second, of the whole deployment."),
    _flag("Requests", "arrivals", "--arrivals", "NAME", "poisson (default), gamma, constant or at-once."),
    _flag("Requests", "burstiness", "--burstiness", "B", "Of gamma: above 1 in bursts, below 1 evenly."),
    _flag("Requests", "ramp", "--ramp", "X", "The rate at the end, in rates at the beginning."),
    _flag("Requests", "think_s", "--think-time", "TIME", "Between an answer and the next request or turn."),
    _flag("Requests", "isl_sigma", "--isl-sigma", "S", "Lognormal prompts around --isl: sigma of the logarithm."),
    _flag("Requests", "osl_sigma", "--osl-sigma", "S", "Lognormal answers around --osl."),
    _flag("Requests", "shared_prefix", "--shared-prefix", "TOKENS", "A system prompt before every prompt."),
    _flag("Requests", "prefix_groups", "--prefix-groups", "N", "Different system prompts. Default 1."),
    _flag("Requests", "turns", "--turns", "N", "Turns of a session, each with all that was said before."),
    _flag("Requests", "tool_calls", "--tool-calls", "N", "Of a turn, each a request with what the tool answered."),
    _flag("Requests", "tool_s", "--tool-time", "TIME", "That a tool takes to answer."),
    _flag("Requests", "equal_lengths", "--equal-lengths", None, "Clients' requests too are of one length.", "bool"),
    _flag("Requests", "lengths_from", "--lengths-from", "FILE", "Lengths drawn from those of a trace."),
    _flag("Requests", "samples", "--samples", "N", "Answers to each prompt, which they share."),
    _flag("Requests", "beam", "--beam", "N", "Beams of each request: what their block tables share."),
    _flag("Requests", "trace", "--trace", "FILE", "Azure, Mooncake, BurstGPT, LLMServingSim, a log, bench results."),
    _flag("Requests", "time_scale", "--time-scale", "X", "Times between a trace's arrivals, multiplied."),
    _flag("Requests", "urgent", "--urgent", "SHARE", "Of the requests, with priority 0; the others have 1."),
    _flag("Requests", "seed", "--seed", "N", "Of everything random. Default 0."),
)
SLO = (
    Flag("ttft_s", ("--ttft",), "TIME", "Target for the time to first token: 1s.", "Targets"),
    *(flag._replace(panel="Targets") for flag in TARGETS),
    _flag("Targets", "e2e_s", "--e2e", "TIME", "Target for the whole answer."),
    _flag("Targets", "find_rate", "--find-rate", None, "The highest rate that keeps every target.", "bool"),
    _flag("Targets", "percentile", "--percentile", "P", "At which targets are judged. Default 99."),
)
SCHEDULER = (
    _flag("Scheduler", "scheduler", "--scheduler", "NAME", "continuous (default, as the engine's) or static."),
    _flag("Scheduler", "reservation", "--reservation", "NAME", "Cache in one piece: max, pow2 or oracle."),
    _flag("Scheduler", "async_scheduling", "--async-scheduling/--no-async-scheduling", None,
          "Plan a step ahead of the results. Default: as the engine.", "switch"),
    _flag("Scheduler", "scheduling_policy", "--scheduling-policy", "NAME", "fcfs (default), or priority."),
    _flag("Scheduler", "long_prefill_token_threshold", "--long-prefill-token-threshold", "TOKENS",
          "Of one prompt in a step, at most."),
    _flag("Scheduler", "accepting", "--accepting", "NAME", "sampled (default), or expected: always the mean."),
    _flag("Scheduler", "watermark", "--watermark", "SHARE", "Of the blocks, kept free when admitting."),
    _flag("Scheduler", "prefill_schedule_interval", "--prefill-schedule-interval", "N", "Prompts in every N-th step."),
    _flag("Scheduler", "routing", "--routing", "NAME", "least-loaded (default), round-robin or prefix-aware."),
    _flag("Scheduler", "preemption_mode", "--preemption-mode", "NAME", "recompute (default), or swap to --swap-space."),
    _flag("Scheduler", "kv_offload_bytes", "--kv-offload-gb", "GIB", "Host memory for cached blocks, GiB per GPU."),
    _flag("Scheduler", "prefill_replicas", "--prefill-replicas", "N", "Replicas that compute prompts for the others."),
    _flag("Scheduler", "calibrate_from", "--calibrate-from", "FILE", "Measured requests: one factor for all steps."),
    _flag("Scheduler", "step_time_s", "--step-time", "TIME", "Every step takes this long: count steps with 1s."),
)  # fmt: skip
RAY = (_flag("Output", "ray", "--ray", "ADDRESS", "Sweeps and searches on a Ray cluster; local starts one."),)
OWN = (*TRAFFIC, *(flag for flag in SLO if flag.field in ("e2e_s", "percentile", "find_rate")), *SCHEDULER, *RAY)


FILES = (
    _flag("Output", "requests_csv", "--requests-csv", "FILE", "Every request as a row."),
    _flag("Output", "timeline", "--timeline", "FILE", "The run as a Chrome trace."),
)
SWEPT = frozenset(
    (
        *("request_rate", "seed", "scheduler", "routing", "reservation", "burstiness", "turns", "shared_prefix"),
        *("gpu", "concurrency", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
        *("max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype", "quantization", "engine", "engine_version"),
    )
)


@takes(GPU, LENGTHS, CONCURRENCY, TRAFFIC, SLO, SCHEDULER, SERVING, FILES, RAY, OUTPUT, repeated=SWEPT, says=DRAWN)
def command(model: ModelArgument, flags: Flags) -> None:
    """Requests through the engine's scheduler: latencies, goodput, queues, what is in use.

    \b
      kvcalc simulate llama-3-8b --gpu l40s --isl 1k --osl 200 --request-rate 3
      kvcalc simulate llama-3-8b --gpu l40s --isl 1k --osl 200 --concurrency 64
      kvcalc simulate qwen3-8b --gpu l40s --isl 1k --osl 99 --ttft 1s --find-rate
    A repeated flag sweeps: --request-rate 1 --request-rate 2, -tp 1 -tp 2, ...
    """
    output = Output(flags, formats=(*FORMATS, *PICTURES))
    writable: dict[str, Path] = {
        name: _checked(f"--{name.replace('_', '-')}", flags.pop(name))
        for name in ("requests_csv", "timeline")
        if name in flags
    }
    lists = {name: values for name in SWEPT if len(values := flags.get(name, ())) > 1 and isinstance(values, list)}
    flags.update({name: flags[name][0] for name in SWEPT & flags.keys()})
    lengths: dict[str, Any] = {name: flags.pop(name) for name in ("input_len", "output_len") if name in flags}
    own: dict[str, Any] = {flag.field: flags.pop(flag.field) for flag in OWN if flag.field in flags}
    from kvcalc.answers.simulate.ask import Asked, simulate_from
    from kvcalc.render.pages import latency as drawn
    from kvcalc.render.pages import simulate as pages
    from kvcalc.render.pages import simulate_sweep as sweeps

    asked = Asked(model, flags, lengths, own)
    if lists:
        from kvcalc.answers.simulate.sweep import sweep

        _refuse_beside_sweep(writable)
        output.emit(sweep(asked, lists, own.get("ray")), sweeps.sweep_page, sweeps.sweep_rows, drawn.sweep_pictures)
        return
    with bar() as progress:
        report = simulate_from(asked, lambda run: _write(run, writable), progress, explain=output.explain)
    output.emit(report, pages.page, pages.rows, drawn.pictures)


def _checked(flag: str, name: str) -> Path:
    check_writable(Path(name), flag)
    return Path(name)


def _refuse_beside_sweep(writable: dict[str, Path]) -> None:
    for name in writable:
        flag = "--" + name.replace("_", "-")
        raise KvcalcError(f"{flag} is of one run, and a repeated flag asks for several", hint="leave one of them out")


def _write(run: Any, writable: dict[str, Path]) -> None:
    from kvcalc.answers.simulate.files import chrome_trace, requests_csv

    for name, path in writable.items():
        text = requests_csv(run) if name == "requests_csv" else chrome_trace(run)
        write_file(path, text.encode())
