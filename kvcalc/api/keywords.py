"""The keywords of each command's function: the flags of the command line, with underscores.

Text is read as a flag reads it ("50GB", "8K", "30ms"). Numbers are in base units: bytes, tokens, seconds; those of
`cpu_offload_gb`, `swap_space` and `kv_offload_gb` are GiB, as vLLM has them. `kvcalc <command> --help` says what each
one means; the tests hold that both know the same names.
"""

from collections.abc import Sequence
from typing import Generic, TypedDict, TypeVar

Value = str | int | float
Several = Value | Sequence[Value]
One = TypeVar("One")  # what a keyword takes: one value, or several in a sweep


class Layout(TypedDict, Generic[One], total=False):
    """How a replica is spread over GPUs."""

    tensor_parallel_size: One
    tp: One
    tp_size: One
    pipeline_parallel_size: One
    pp: One
    pp_size: One
    data_parallel_size: One
    dp: One
    dp_size: One
    enable_expert_parallel: bool
    ep: bool
    decode_context_parallel_size: One
    dcp: One
    num_redundant_experts: One
    gpus_per_node: One
    network_bandwidth: One


class Engine(TypedDict, Generic[One], total=False):
    """The engine and its settings."""

    engine: One
    engine_version: One
    max_model_len: One
    context_length: One
    ctx_size: One
    c: One
    parallel: One
    np: One
    max_num_seqs: One
    max_running_requests: One
    max_num_batched_tokens: One
    max_mamba_cache_size: One
    enable_dp_attention: bool
    block_size: One
    enable_prefix_caching: bool
    num_gpu_blocks_override: One
    language_model_only: bool
    limit_mm_per_prompt: One
    speculative_config: str
    sc: str
    enable_lora: bool
    offline: bool
    enforce_eager: bool
    scheduler_recv_interval: One
    num_speculative_tokens: One
    max_loras: One
    max_lora_rank: One


class LlamaCpp(TypedDict, Generic[One], total=False):
    """llama.cpp's own."""

    backend: One
    ubatch_size: One
    ub: One
    flash_attn: One
    fa: One
    n_gpu_layers: One
    ngl: One
    n_cpu_moe: One
    ncmoe: One
    host_memory_bandwidth: One


class Numbers(TypedDict, Generic[One], total=False):
    """How weights and cache are stored."""

    dtype: One
    quantization: One
    q: One
    kv_cache_dtype: One
    cache_type_k: str
    ctk: str
    cache_type_v: str
    ctv: str
    mamba_ssm_cache_dtype: One


class Memory(TypedDict, Generic[One], total=False):
    """What of a GPU's memory the engine may use."""

    gpu_memory_utilization: One
    mem_fraction_static: Value
    kv_cache_free_gpu_memory_fraction: Value
    free_gpu_memory_fraction: Value
    kv_cache_memory_bytes: Value
    kv_memory: One
    overhead: One
    cpu_offload_gb: One
    swap_space: One


class Cost(TypedDict, Generic[One], total=False):
    """What is paid."""

    price: One
    price_file: One
    pricing: One


class Point(TypedDict, Generic[One], total=False):
    """Where the question is looked at."""

    context: One
    batch: One
    input_len: One
    isl: One
    output_len: One
    osl: One


class Clients(TypedDict, Generic[One], total=False):
    """Who asks, where lengths are given."""

    concurrency: One
    num_prompts: One
    equal_lengths: bool
    prefix_hit: One


class Answer(TypedDict, total=False):
    """What every function takes beside the question."""

    serve: str
    strict: bool
    explain: bool


class Serving(
    Layout[One], Engine[One], LlamaCpp[One], Numbers[One], Memory[One], Cost[One], Answer, Generic[One], total=False
):  # fmt: skip
    """A deployment."""

    draft: One
    acceptance: Several


class Size(Serving[One], Point[One], Clients[One], Generic[One], total=False):
    """Of `size`, and of `compare`, which takes several values of each."""


class Compare(Size[Several], total=False):
    """Of `compare`."""

    baseline: str


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


class Curve(Serving[Value], Point[Several], total=False):
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
    target_probs: str
    draft_probs: str


class Simulate(Serving[Value], total=False):
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
    samples: Value
    beam: Value
    trace: str
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
    calibrate_from: str
    step_time: Value
    ray: str


class Plan(Serving[Several], total=False):
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
    trace: str
    judge: str
    objective: str
    gpus_available: Several
    max_usd_per_hour: Value
    emit: str
    utilization: Value
    api_price: str
    top: Value


class Model(Numbers[Value], total=False):
    """Of `models`, for one model."""

    strict: bool
    explain: bool


class Diagnose(Serving[Value], total=False):
    """Of `diagnose`."""

    model: str
    gpu: str
