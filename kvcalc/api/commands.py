"""One function a command. Keywords are the flags (`kvcalc.api.keywords`), attributes of what comes back are the JSON's
keys, and every answer is the one that the command line gives.

All of them raise KvcalcError where the question cannot be answered as it is asked.
"""

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from kvcalc.api.arguments import named, several, speaks_of_arguments
from kvcalc.api.call import call_of
from kvcalc.api.keywords import (
    Compare,
    Curve,
    Diagnose,
    Kv,
    Model,
    Name,
    Plan,
    Prefill,
    Simulate,
    Size,
    Speculate,
    Step,
    Value,
)
from kvcalc.results.check import CheckReport
from kvcalc.results.compare import CompareReport
from kvcalc.results.curve import CurveReport
from kvcalc.results.diagnose import DiagnoseReport
from kvcalc.results.gpus import GpuReport, GpusReport, MachinesReport
from kvcalc.results.kv import KvReport
from kvcalc.results.models import ModelReport, ModelsReport
from kvcalc.results.plan import PlanReport
from kvcalc.results.prefill import PrefillReport
from kvcalc.results.ranking import RankingReport
from kvcalc.results.simulate import SimulateReport
from kvcalc.results.size import SizeReport
from kvcalc.results.speculate import SpeculateReport
from kvcalc.results.step import StepReport
from kvcalc.specs.budget import Budget

_SWEPT = ("tensor_parallel_size", "batch", "concurrency", "context", "input_len", "output_len")
_VARIED = (
    *("tensor_parallel_size", "pipeline_parallel_size", "quantization", "kv_cache_dtype"),
    *("max_num_seqs", "max_num_batched_tokens", "gpus_available"),
)
_LISTS = ("acceptance", "accepted_length", "tree_width")


@overload
def size(model: Name | None = None, *, gpu: Name, **flags: Unpack[Size[Value]]) -> SizeReport: ...
@overload
def size(model: Name | None = None, *, gpu: None = None, **flags: Unpack[Size[Value]]) -> RankingReport: ...
@speaks_of_arguments
def size(
    model: Name | None = None, *, gpu: Name | None = None, **flags: Unpack[Size[Value]]
) -> SizeReport | RankingReport:
    """Does it fit, how many users, how fast, what binds, what it costs; without `gpu`: every GPU, ranked.

    Bytes are of one GPU, tokens and sequences of one replica, throughput and cost of the whole deployment.

    >>> import kvcalc
    >>> r = kvcalc.size("llama-3-8b", gpu="h100-sxm", engine="ideal", kv_memory="50GB", context=2048)
    >>> r.result.max_batch, r.result.kv_cache_bytes_per_token
    (186, 131072)
    """
    from kvcalc.answers.question import ask
    from kvcalc.answers.size.answer import size as answer
    from kvcalc.answers.size.ranking import rank

    call = call_of(model, flags, Size)
    question = ask(call.the_model, call.flags | ({} if gpu is None else {"gpu": named(gpu, "gpu")}))
    if question.gpu is None:
        return call.said(rank(question, with_working=call.explain))
    return call.said(answer(question, with_working=call.explain))


@speaks_of_arguments
def kv(models: Name | Sequence[Name], **flags: Unpack[Kv]) -> KvReport:
    """What one token and one sequence of cache cost, by kind of layer and by context, in bytes.

    >>> import kvcalc
    >>> kvcalc.kv("llama-2-7b", context=4096).result.models[0].by_context[0].bytes
    2147483648
    """
    from kvcalc.answers.kv.ask import kv_from

    names = several(models)
    call = call_of(names[0] if names else None, flags, Kv)
    found = {name: several(value) if name in ("context", "kv_cache_dtype") else value
             for name, value in call.flags.items()}  # fmt: skip
    return call.said(kv_from(names or [call.the_model], found))


@speaks_of_arguments
def step(model: Name | None = None, *, gpu: Name, **flags: Unpack[Step]) -> StepReport:
    """One decode step taken apart: bytes, FLOPs, intensity, bounds and estimate, per operator; times in seconds.

    >>> import kvcalc
    >>> kvcalc.step("llama-3-8b", gpu="h100-sxm", batch=1, context=2048, engine="ideal").result.weight_bytes
    16060522496.0
    """
    from kvcalc.answers.step.ask import step_from

    call = call_of(model, flags, Step)
    return call.said(step_from(call.the_model, call.flags | {"gpu": named(gpu, "gpu")}, explain=call.explain))


@speaks_of_arguments
def compare(
    models: Name | Sequence[Name] = (), *, gpu: Name | Sequence[Name], **flags: Unpack[Compare]
) -> CompareReport:
    """The same question for every combination of models and of values given as sequences, ranked.

    `baseline` is a file of an earlier answer's JSON: what has changed since stands in the result.

    >>> import kvcalc
    >>> r = kvcalc.compare("llama-3-8b", gpu=["l4", "h100-sxm"], engine="ideal", context=2048)
    >>> [row["gpu"] for row in r.result.rows if row["fits"]]
    ['h100-sxm', 'l4']
    """
    from kvcalc.answers.compare.answer import compare as answer
    from kvcalc.answers.compare.baseline import with_baseline

    given = dict(flags)
    served, baseline = given.pop("serve", None), given.pop("baseline", None)
    call = call_of(None, given, Compare)
    found = {name: value if isinstance(value, str) else several(value) for name, value in call.flags.items()}
    commands = {} if served is None else {"serve": several(served)}
    report = answer(several(models), {"gpu": several(gpu), **found, **commands}, with_working=call.explain)
    return report if baseline is None else with_baseline(report, str(baseline))


@speaks_of_arguments
def curve(model: Name | None = None, *, gpu: Name | Sequence[Name], **flags: Unpack[Curve]) -> CurveReport:
    """Throughput, time per token and cost over batch or clients, context, lengths, `tp` or GPUs.

    >>> import kvcalc
    >>> r = kvcalc.curve("llama-3-8b", gpu="h100-sxm", engine="ideal", batch=[1, 64], context=2048)
    >>> [round(point.output_tokens_per_s) for point in r.result.points]
    [205, 6450]
    """
    from kvcalc.answers.curve.answer import curve as answer

    call = call_of(model, flags, Curve)
    swept = {name: several(call.flags.pop(name)) for name in _SWEPT if name in call.flags}
    return call.said(answer(call.the_model, {"gpu": several(gpu), **swept}, call.flags, call.explain))


@speaks_of_arguments
def prefill(model: Name | None = None, *, gpu: Name, **flags: Unpack[Prefill]) -> PrefillReport:
    """Time to first token of a prompt of `isl` tokens, chunks, the spike beside `batch` sequences, transfers, swap.

    >>> import kvcalc
    >>> round(kvcalc.prefill("llama-3-8b", gpu="h100-sxm", isl=8192, engine="ideal").result.bound_s, 3)
    0.151
    """
    from kvcalc.answers.prefill.ask import prefill_from

    call = call_of(model, flags, Prefill)
    return call.said(prefill_from(call.the_model, call.flags | {"gpu": named(gpu, "gpu")}, explain=call.explain))


@speaks_of_arguments
def speculate(model: Name | None = None, *, gpu: Name, **flags: Unpack[Speculate]) -> SpeculateReport:
    """Tokens per pass, speed-up and best draft length of speculative decoding, and where it stops paying.

    >>> import kvcalc
    >>> r = kvcalc.speculate("llama-3-8b", gpu="h100-sxm", acceptance=0.8, draft_cost=0.05, gamma=4, engine="ideal")
    >>> round(r.result.tokens_per_pass, 2)
    3.36
    """
    from kvcalc.answers.speculate.ask import speculate_from

    call = call_of(model, flags, Speculate)
    found = {name: several(value) if name in _LISTS else value for name, value in call.flags.items()}
    return call.said(speculate_from(call.the_model, found | {"gpu": named(gpu, "gpu")}, explain=call.explain))


@speaks_of_arguments
def simulate(model: Name | None = None, *, gpu: Name, **flags: Unpack[Simulate]) -> SimulateReport:
    """Requests through the engine's scheduler: latencies in seconds, goodput, queues, what is in use.

    >>> import kvcalc
    >>> r = kvcalc.simulate("llama-3-8b", gpu="l40s", isl=512, osl=64, request_rate=2, requests=40)
    >>> r.result.requests, r.result.verdict
    (40, 'stable')
    """
    from kvcalc.answers.simulate.ask import Asked, simulate_from
    from kvcalc.answers.simulate.settings import SimulateSettings
    from kvcalc.specs.base import field_names

    call = call_of(model, flags, Simulate)
    mine, lengths = field_names(SimulateSettings), ("input_len", "output_len")
    asked = Asked(
        call.the_model,
        {name: value for name, value in call.flags.items() if name not in (*mine, *lengths)}
        | {"gpu": named(gpu, "gpu")},
        {name: str(call.flags[name]) for name in lengths if name in call.flags},
        {name: call.flags[name] for name in mine if name in call.flags},
    )
    return call.said(simulate_from(asked, explain=call.explain))


@speaks_of_arguments
def plan(model: Name | None = None, *, gpu: Name | Sequence[Name] | None = None, **flags: Unpack[Plan]) -> PlanReport:
    """The cheapest deployments that meet a workload (`users` or a rate, `isl`, `osl`) and its targets.

    >>> import kvcalc
    >>> kvcalc.plan("qwen3-8b", gpu="l4", tp=1, isl=1000, osl=200, request_rate=0.1, ttft=5).result.candidates[0].gpus
    1
    """
    from kvcalc.answers.plan.ask import plan_from

    call = call_of(model, flags, Plan)
    found = {name: several(value) if name in _VARIED else value for name, value in call.flags.items()}
    return call.said(
        plan_from(call.the_model, found | ({} if gpu is None else {"gpu": several(gpu)}), explain=call.explain)
    )


@speaks_of_arguments
def check(
    budget: Budget | Name = "budget.toml",
    *,
    strict: bool = False,
    baseline: Name | None = None,
    explain: bool = False,
) -> CheckReport:
    """Do the deployments of a budget (a file, or `read_budget`'s) still meet their limits? See `result.passed`.

    `baseline` is a file of an earlier answer's JSON: what has changed since stands in the result.
    """
    from kvcalc.answers.check.answer import check as answer
    from kvcalc.answers.check.baseline import with_baseline
    from kvcalc.catalog.budgets import read_budget

    report = answer(budget if isinstance(budget, Budget) else read_budget(Path(budget), strict=strict), explain)
    return report if baseline is None else with_baseline(report, str(baseline))


@speaks_of_arguments
def diagnose(log: Name | Iterable[str], **flags: Unpack[Diagnose]) -> DiagnoseReport:
    """A start-up log (a path, or its lines): where the memory went, whether it agrees with the prediction, advice."""
    from kvcalc.answers.diagnose.answer import diagnose as answer
    from kvcalc.catalog.files.log import opened_log
    from kvcalc.engines.logs.read import bounded_lines

    call = call_of(None, flags, Diagnose)
    if not isinstance(log, str | PathLike):
        return call.said(answer(log, call.flags))
    with opened_log(fspath(log)) as file:
        return call.said(answer(bounded_lines(file), call.flags))


@overload
def models(model: None = None) -> ModelsReport: ...
@overload
def models(model: Name, **flags: Unpack[Model]) -> ModelReport: ...
@speaks_of_arguments
def models(model: Name | None = None, **flags: Any) -> ModelsReport | ModelReport:
    """The model cards in a list, or one model in full: parameters, weights, cache and their sources.

    >>> import kvcalc
    >>> kvcalc.models("llama-3-8b").result.parameters
    8030261248
    """
    from kvcalc.answers.listing.ask import model_from, models_from

    call = call_of(model, flags, Model)
    return models_from(call.flags) if model is None else model_from(call.the_model, call.flags)


@overload
def gpus(gpu: None = None, *, match: str = "", machines: Literal[False] = False) -> GpusReport: ...
@overload
def gpus(gpu: None = None, *, match: str = "", machines: Literal[True]) -> MachinesReport: ...
@overload
def gpus(gpu: Name) -> GpuReport: ...
@speaks_of_arguments
def gpus(
    gpu: Name | None = None, *, match: str = "", machines: bool = False
) -> GpusReport | MachinesReport | GpuReport:
    """The GPU specs in a list, the clouds' `machines`, or one GPU with the source of each number.

    >>> import kvcalc
    >>> kvcalc.gpus("h100-sxm").result.title
    'NVIDIA H100 SXM5 80GB'
    """
    from kvcalc.answers.listing.ask import gpus_from

    return gpus_from(named(gpu, "gpu"), match, machines)
