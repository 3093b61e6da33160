"""Deployment: how a model is served. Field names are vLLM's flags with underscores."""

from functools import partial
from typing import Annotated, Literal

from kvcalc.specs.base import Frozen, field_names
from kvcalc.specs.constraints import FromText, Within
from kvcalc.specs.price import Pricing
from kvcalc.units import parse_bandwidth, parse_bytes, parse_count, parse_gib, parse_number, parse_share, parse_tokens


def tokens(what: str) -> FromText:
    """Reads a field as a number of tokens, where it comes as text; `what` names it in errors."""
    return FromText(parse_tokens, what)


def count(what: str) -> FromText:
    """Reads a field as a whole number, where it comes as text."""
    return FromText(parse_count, what)


def gpu_layers(text: str, what: str) -> int | None:
    """Layers on the GPU, as llama.cpp takes them: a number, or one of its words for as many as there are.

    Raises:
        KvcalcError: neither.

    >>> gpu_layers("20", "-ngl"), gpu_layers("all", "-ngl"), gpu_layers("-1", "-ngl")
    (20, None, None)
    """
    return None if text.strip().lower() in ("all", "auto", "-1") else parse_count(text, what)


def byte_size(what: str) -> FromText:
    """Reads a field as a size with its unit, where it comes as text."""
    return FromText(parse_bytes, what)


def gib(what: str) -> FromText:
    """Reads a field as a bare number of GiB, where it comes as text."""
    return FromText(parse_gib, what)


def engine_called(text: str, what: str = "--engine") -> str:
    """An engine by its name here, however it is spelled.

    >>> engine_called("llama.cpp"), engine_called("vLLM")
    ('llamacpp', 'vllm')
    """
    return _SPELLED.get(text.lower(), text.lower())


def usd(text: str, what: str) -> float:
    """A price; the dollar sign may stand in front.

    >>> usd("$1.99", "--price"), usd("1.99", "--price")
    (1.99, 1.99)
    """
    return parse_number(text.strip().removeprefix("$"), what, "2.50")


def number(what: str, example: str) -> FromText:
    """Reads a field as a plain number, where it comes as text; `example` is one that makes sense there."""
    return FromText(partial(parse_number, example=example), what)


def share(what: str) -> FromText:
    """Reads a field as a number from 0 to 1 or a percentage, where it comes as text."""
    return FromText(parse_share, what)


def bandwidth(what: str) -> FromText:
    """Reads a field as bytes or bits a second, where it comes as text."""
    return FromText(parse_bandwidth, what)


# Fields of a deployment that are no flags: what kvcalc has found out, not what was asked.
SETTLED = ("attention_settled", "raw_latents", "draft_unread", "experts_over_replicas")
# Tokens that a step carries at most where neither a flag nor the engine says: what servers take on GPUs of 70 GiB or
# more. From 2,048 up the choice changes little.
BATCHED_TOKENS = 8192

Engine = Literal["ideal", "vllm", "sglang", "trtllm", "llamacpp"]
IDEAL: Engine = "ideal"  # the lessons' arithmetic: no engine at all
USUAL_ENGINE: Engine = "vllm"  # where none is named
_SPELLED = {"llama.cpp": "llamacpp", "llama-cpp": "llamacpp", "tensorrt-llm": "trtllm", "trt-llm": "trtllm"}
Tokens = Annotated[int, Within(ge=1, le=10**9)]
Sequences = Annotated[int, Within(ge=1, le=10**7)]
Ranks = Annotated[int, Within(ge=1, le=4096)]
Bytes = Annotated[int, Within(ge=0, le=10**15)]
Chance = Annotated[float, Within(ge=0, le=1)]


class Layout(Frozen):
    """How one replica is spread over GPUs.

    `data_parallel_size` replicas of attention share the experts when expert parallelism is on (DP attention with EP),
    or where the engine slices each expert over the ranks of all replicas.
    """

    tensor_parallel_size: Annotated[Ranks, count("--tensor-parallel-size")] = 1
    pipeline_parallel_size: Annotated[Ranks, count("--pipeline-parallel-size")] = 1
    data_parallel_size: Annotated[Ranks, count("--data-parallel-size")] = 1
    enable_expert_parallel: bool = False
    decode_context_parallel_size: Annotated[Ranks, count("--decode-context-parallel-size")] = 1
    num_redundant_experts: Annotated[int, Within(ge=0, le=4096), count("--num-redundant-experts")] = 0
    experts_over_replicas: bool = False  # no flag: each expert is sliced over the ranks of all replicas

    @property
    def gpus(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.data_parallel_size

    @property
    def shares_experts(self) -> bool:
        """Whether replicas share the experts, each of which then meets the tokens of all of them."""
        return self.data_parallel_size > 1 and (self.enable_expert_parallel or self.experts_over_replicas)

    @property
    def expert_slices(self) -> int:
        """Ranks that each hold a slice of every expert; 1 where experts are dealt whole."""
        if self.enable_expert_parallel:
            return 1
        return self.tensor_parallel_size * (self.data_parallel_size if self.experts_over_replicas else 1)


class Deployment(Layout):
    """A layout, an engine and its settings. None means the engine's own default."""

    engine: Annotated[Engine, FromText(engine_called, "--engine")] = "vllm"
    engine_version: str | None = None
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    block_size: Annotated[Tokens | None, tokens("--block-size")] = None
    max_model_len: Annotated[Tokens | None, tokens("--max-model-len")] = None
    ctx_size: Annotated[Tokens | None, tokens("--ctx-size")] = None  # llama.cpp: cells of all slots together
    parallel: Annotated[Sequences | None, count("--parallel")] = None  # llama.cpp: slots
    max_num_seqs: Annotated[Sequences | None, count("--max-num-seqs")] = None
    max_num_batched_tokens: Annotated[Tokens | None, tokens("--max-num-batched-tokens")] = None
    gpu_memory_utilization: Annotated[float | None, Within(gt=0, le=1), share("--gpu-memory-utilization")] = None
    max_mamba_cache_size: Annotated[Sequences | None, count("--max-mamba-cache-size")] = None  # SGLang: slots of state
    enable_prefix_caching: bool | None = None
    num_gpu_blocks_override: Annotated[Sequences | None, count("--num-gpu-blocks-override")] = None  # vLLM
    language_model_only: bool = False  # no vision and audio towers
    limit_mm_per_prompt: str | None = None  # image=0,video=0: a tower without items is not loaded
    enforce_eager: bool = False
    # Of the largest step that is captured as a graph: tokens in vLLM, sequences in SGLang.
    max_cudagraph_capture_size: Annotated[Sequences | None, count("--max-cudagraph-capture-size")] = None
    enable_dp_attention: bool = False  # SGLang: replicas of attention inside the tensor-parallel GPUs
    enable_chunked_prefill: bool = False  # TensorRT-LLM: prompts may take several steps; the others split them anyway
    attention_settled: bool = False  # no flag: the sizes above are those of a replica already
    raw_latents: bool = False  # no flag: sparse latents in fp8 are cached as they are, without scales beside them
    offline: bool = False  # vLLM's `LLM` class instead of a server: other defaults
    scheduler_recv_interval: Annotated[int | None, Within(ge=1, le=10**6), count("--scheduler-recv-interval")] = None
    draft: str | None = None  # a model, or a method, that drafts
    draft_unread: str | None = None  # no flag: why the draft could not be read
    num_speculative_tokens: Annotated[int, Within(ge=0, le=64), count("--num-speculative-tokens")] = 0
    acceptance: Annotated[tuple[Chance, ...], share("--acceptance")] = ()  # of drafts, by position
    max_loras: Annotated[int, Within(ge=0, le=1024), count("--max-loras")] = 0
    max_lora_rank: Annotated[int, Within(ge=1, le=4096), count("--max-lora-rank")] = 16
    kv_memory_bytes: Annotated[Bytes | None, Within(gt=0), byte_size("--kv-memory")] = None  # per GPU; the pool itself
    overhead_bytes: Annotated[Bytes | None, byte_size("--overhead")] = None  # per GPU; replaces the predicted one
    cpu_offload_bytes: Annotated[Bytes, gib("--cpu-offload-gb")] = 0
    offload_group_size: Annotated[int, Within(ge=0, le=10**4), count("--offload-group-size")] = 0
    offload_num_in_group: Annotated[int, Within(ge=1, le=10**4), count("--offload-num-in-group")] = 1
    offload_prefetch_step: Annotated[int, Within(ge=1, le=10**4), count("--offload-prefetch-step")] = 1
    swap_space_bytes: Annotated[Bytes, gib("--swap-space")] = 0
    # llama.cpp
    backend: Literal["cuda", "hip", "vulkan", "metal", "sycl"] | None = None  # None: the GPU vendor's own
    ubatch_size: Annotated[Tokens | None, tokens("--ubatch-size")] = None
    flash_attn: Literal["on", "off", "auto"] = "auto"
    n_gpu_layers: Annotated[int | None, Within(ge=0, le=10**6), FromText(gpu_layers, "-ngl")] = None  # None: all
    n_cpu_moe: Annotated[int, Within(ge=0, le=10**6), count("--n-cpu-moe")] = 0
    host_memory_bandwidth: str | None = None  # a number with its unit, or a common host's name
    gpus_per_node: Annotated[Ranks | None, count("--gpus-per-node")] = None
    # Of one GPU, one direction.
    network_bandwidth_bytes_per_s: Annotated[Bytes | None, Within(gt=0), bandwidth("--network-bandwidth")] = (
        None  # of a GPU
    )
    price_usd_per_hour: Annotated[float | None, Within(gt=0, le=1e6), FromText(usd, "--price")] = None  # of one GPU
    price_file: str | None = None
    pricing: Pricing = "on-demand"  # how a cloud's machine is paid

    @property
    def state_dtype(self) -> str | None:
        """Element type that was asked for recurrent state; None: the config's, or the engine's rule."""
        return None if self.mamba_ssm_cache_dtype == "auto" else self.mamba_ssm_cache_dtype

    @property
    def layout(self) -> Layout:
        return Layout(**{name: getattr(self, name) for name in field_names(Layout)})
