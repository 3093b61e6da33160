"""The keywords that several functions share, in the groups that `--help` has."""

from collections.abc import Sequence
from os import PathLike
from typing import Generic, TypedDict, TypeVar

Value = str | int | float
Name = str | PathLike[str]  # a name, or the path of a file that says the same
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
    enable_chunked_prefill: bool
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
    max_cudagraph_capture_size: One
    cuda_graph_max_bs: One
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
    offload_group_size: One
    offload_num_in_group: One
    offload_prefetch_step: One
    swap_space: One


class Cost(TypedDict, Generic[One], total=False):
    """What is paid."""

    price: One
    price_file: One | PathLike[str]
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


class DeploymentFlags(
    Layout[One], Engine[One], LlamaCpp[One], Numbers[One], Memory[One], Cost[One], Answer, Generic[One], total=False
):  # fmt: skip
    """A deployment."""

    draft: One | PathLike[str]
    acceptance: Several
