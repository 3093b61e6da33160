"""The keywords of each command's function: the flags of the command line, with underscores.

Text is read as a flag reads it ("50GB", "8K", "30ms"). Numbers are in base units: bytes, tokens, seconds; those of
`cpu_offload_gb`, `swap_space` and `kv_offload_gb` are GiB, as vLLM has them. `kvcalc <command> --help` says what each
one means; the tests hold that both know the same names.
"""

from typing import Generic

from kvcalc.api.groups import (
    Answer,
    Clients,
    DeploymentFlags,
    Engine,
    Layout,
    Name,
    Numbers,
    One,
    Point,
    Several,
    Value,
)

__all__ = ["Name", "Several", "Value"]


class Size(DeploymentFlags[One], Point[One], Clients[One], Generic[One], total=False):
    """Of `size`, and of `compare`, which takes several values of each."""


class Compare(Size[Several], total=False):
    """Of `compare`."""

    baseline: Name


class Step(Size[Value], total=False):
    """Of `step`."""

    tokens_per_step: Value


class Kv(Layout[Value], Engine[Value], Answer, total=False):
    """Of `kv`."""

    context: Several
    kv_cache_dtype: Several
    batch: Value
    dtype: Value
    cache_type_k: str
    ctk: str
    cache_type_v: str
    ctv: str
    mamba_ssm_cache_dtype: Value


class Curve(DeploymentFlags[Value], Point[Several], total=False):
    """Of `curve`."""

    concurrency: Several
    num_prompts: Value
    equal_lengths: bool
    prefix_hit: Value
    tpot: Value


class Prefill(Size[Value], total=False):
    """Of `prefill`."""

    tpot: Value
    chunk: Value
    compute_efficiency: Value
    host_bandwidth: Value


class Speculate(Size[Value], total=False):
    """Of `speculate`."""

    draft_cost: Value
    draft_quantization: str
    gamma: Value
    tree_width: Several
    tree: bool
    tree_nodes: Value
    decay: Value
    accepted_length: Several
    target_probs: Name
    draft_probs: Name


class Simulate(DeploymentFlags[Value], total=False):
    """Of `simulate`."""

    input_len: Value
    isl: Value
    output_len: Value
    osl: Value
    concurrency: Value
    requests: Value
    request_rate: Value
    arrivals: str
    burstiness: Value
    ramp: Value
    think_time: Value
    isl_sigma: Value
    osl_sigma: Value
    shared_prefix: Value
    prefix_groups: Value
    turns: Value
    tool_calls: Value
    tool_time: Value
    equal_lengths: bool
    lengths_from: Name
    samples: Value
    beam: Value
    trace: Name
    time_scale: Value
    urgent: Value
    seed: Value
    ttft: Value
    tpot: Value
    e2e: Value
    find_rate: bool
    percentile: Value
    scheduler: str
    reservation: str
    async_scheduling: bool
    scheduling_policy: str
    long_prefill_token_threshold: Value
    accepting: str
    watermark: Value
    prefill_schedule_interval: Value
    routing: str
    preemption_mode: str
    kv_offload_gb: Value
    prefill_replicas: Value
    calibrate_from: Name
    step_time: Value
    ray: str


class Plan(DeploymentFlags[Several], total=False):
    """Of `plan`: what may vary is a sequence."""

    input_len: Value
    isl: Value
    output_len: Value
    osl: Value
    prefix_hit: Value
    equal_lengths: bool
    users: Value
    think_time: Value
    request_rate: Value
    requests_per_day: Value
    peak_factor: Value
    ttft: Value
    tpot: Value
    e2e: Value
    percentile: Value
    seed: Value
    trace: Name
    judge: str
    objective: str
    gpus_available: Several
    max_usd_per_hour: Value
    emit: str
    emit_pools: bool
    utilization: Value
    api_price: str
    top: Value


class Model(Numbers[Value], total=False):
    """Of `models`, for one model."""

    strict: bool
    explain: bool


class Diagnose(DeploymentFlags[Value], total=False):
    """Of `diagnose`."""

    model: Name
    gpu: Name
