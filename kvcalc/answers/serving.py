"""A server in a steady state: time to first token, time per output token, and the cost of both kinds of token."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.speed import range_of
from kvcalc.counting.operators.passes import prefill_step
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Range
from kvcalc.results.size import Serving
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.roofline import bound
from kvcalc.timing.steady import prompts_time, steady_state


def serving_of(deployed: Deployed, concurrency: int, input_len: int, output_len: int) -> Serving:
    """The steady state at a concurrency per replica, of requests with so many tokens in and out."""
    deployment = deployed.deployment
    found = steady_state(
        deployed.model,
        deployment.layout,
        deployed.machine,
        concurrency=concurrency,
        input_len=input_len,
        output_len=output_len,
        cache_dtype=deployed.cache_dtype,
        budget=deployed.max_num_batched_tokens,
    )
    replicas = deployment.data_parallel_size
    prompt = prefill_step(deployed.model, deployment.layout, tokens=input_len, cache_dtype=deployed.cache_dtype)
    ends = [replicas * concurrency * output_len / _whole(found.ttft_s, found.tpot_s, output_len, end)
            for end in ("high", "low")]  # fmt: skip
    output_usd, input_usd = _costs(deployed, input_len, output_len, found.output_tokens_per_s)
    return Serving(
        input_len=input_len,
        output_len=output_len,
        concurrency=concurrency,
        concurrency_given=deployed.question.workload.concurrency is not None,
        ttft_alone_bound_s=float(bound(prompt, deployed.gpu).time_s),
        ttft_alone_s=range_of(found.ttft_alone_s),
        ttft_s=range_of(found.ttft_s),
        tpot_s=range_of(found.tpot_s),
        output_tokens_per_s=Range(value=found.output_tokens_per_s, low=ends[0], high=ends[1]),
        total_tokens_per_s=found.total_tokens_per_s,
        output_tokens_per_s_per_gpu=found.output_tokens_per_s_per_gpu,
        usd_per_million_output_tokens=output_usd,
        usd_per_million_input_tokens=input_usd,
    )


def _whole(ttft: Estimate, tpot: Estimate, output_len: int, end: str) -> float:
    """Seconds of one request, at one end of both ranges."""
    return float(getattr(ttft, end) + (output_len - 1) * getattr(tpot, end))


def _costs(deployed: Deployed, input_len: int, output_len: int, rate: float) -> tuple[float | None, float | None]:
    """USD per million output and input tokens: the hour is split by the time that prompts take of it."""
    if deployed.price is None:
        return None, None
    usd, gpus = deployed.price.median_usd_per_hour, deployed.bill.gpus
    input_rate = rate * input_len / output_len
    share = min(1.0, input_rate / _prompts_alone(deployed, input_len))
    output = usd_per_million_tokens(usd * (1 - share), gpus, rate)
    return output, usd_per_million_tokens(usd * share, gpus, input_rate)


def usd_per_million_input_tokens(deployed: Deployed, input_len: int) -> float | None:
    """What prompts of this length cost for the time that they take; None without a price."""
    if deployed.price is None:
        return None
    rate = _prompts_alone(deployed, input_len)
    return usd_per_million_tokens(deployed.price.median_usd_per_hour, deployed.bill.gpus, rate)


def _prompts_alone(deployed: Deployed, input_len: int) -> float:
    """Prompt tokens per second of a deployment that does nothing else."""
    layout = deployed.deployment.layout
    time = prompts_time(deployed.model, layout, deployed.machine, input_len, cache_dtype=deployed.cache_dtype)
    return float(layout.data_parallel_size * input_len / time)
