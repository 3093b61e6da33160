"""The flags that commands share, as a table. Values are read as text and parsed by the specs, so that a command line
and a budget file mean the same.
"""

from typing import Literal, NamedTuple


class Flag(NamedTuple):
    """One flag: the field it fills, its spellings, and its line of help."""

    field: str
    names: tuple[str, ...]
    metavar: str | None  # None: a switch without a value
    help: str
    panel: str
    kind: Literal["text", "switch", "bool", "texts"] = "text"  # texts: may be repeated


def _text(panel: str, field: str, names: str, metavar: str, help: str) -> Flag:
    return Flag(field, tuple(names.split()), metavar, help, panel)


def _switch(panel: str, field: str, names: str, help: str) -> Flag:
    return Flag(field, tuple(names.split()), None, help, panel, kind="switch")


GPU = (_text("Where", "gpu", "--gpu", "GPU", "A spec's name, an alias or a TOML: h100-sxm. `kvcalc gpus` lists them."),)

LAYOUT = (
    _text(
        "Layout",
        "tensor_parallel_size",
        "--tensor-parallel-size -tp --tp --tp-size",
        "N",
        "GPUs that share each layer.",
    ),
    _text("Layout", "pipeline_parallel_size", "--pipeline-parallel-size -pp --pp-size", "N", "Stages of layers."),
    _text("Layout", "data_parallel_size", "--data-parallel-size -dp --dp-size", "N", "Replicas."),
    _switch("Layout", "enable_expert_parallel", "--enable-expert-parallel -ep", "Whole experts on each GPU."),
    _text(
        "Layout",
        "decode_context_parallel_size",
        "--decode-context-parallel-size -dcp",
        "N",
        "GPUs that share each sequence's cache.",
    ),
    _text("Layout", "num_redundant_experts", "--num-redundant-experts", "N", "Extra copies of busy experts."),
    _text("Layout", "gpus_per_node", "--gpus-per-node", "N", "Default: from the GPU's spec."),
    _text(
        "Layout",
        "network_bandwidth_bytes_per_s",
        "--network-bandwidth",
        "RATE",
        "Between nodes, of one GPU and way: 50GB/s, 400Gbit/s. Default: from the GPU's spec.",
    ),
)

ENGINE = (
    _text("Engine", "engine", "--engine", "NAME", "ideal, vllm (default), sglang, trtllm or llamacpp."),
    _text("Engine", "engine_version", "--engine-version", "X.Y", "Rules of this version. Default: the newest known."),
    _text(
        "Engine",
        "max_model_len",
        "--max-model-len --context-length",
        "TOKENS",
        "8192, 8k = 8,000, 8K = 8,192; auto: the longest that fits. Default: the model's.",
    ),
    _text("Engine", "ctx_size", "--ctx-size -c", "TOKENS", "llama.cpp: cells of the whole cache, allocated as asked."),
    _text("Engine", "parallel", "--parallel -np", "N", "llama.cpp: slots that share --ctx-size."),
    _text("Engine", "max_num_seqs", "--max-num-seqs --max-running-requests", "N", "Sequences in a step, at most."),
    _text("Engine", "max_num_batched_tokens", "--max-num-batched-tokens", "TOKENS", "Tokens in a step, at most."),
    _text("Engine", "max_mamba_cache_size", "--max-mamba-cache-size", "N", "SGLang: slots of recurrent state."),
    _switch(
        "Engine",
        "enable_dp_attention",
        "--enable-dp-attention",
        "SGLang: -dp replicas of attention inside the -tp GPUs.",
    ),
    _switch("Engine", "enable_chunked_prefill", "--enable-chunked-prefill", "TensorRT-LLM: prompts may be split."),
    _text("Engine", "block_size", "--block-size", "TOKENS", "Tokens in a cache block. Default: the engine's."),
    _switch(
        "Engine",
        "enable_prefix_caching",
        "--enable-prefix-caching/--no-enable-prefix-caching",
        "Default: the engine's; vLLM's is on, for models with states since 0.26.",
    ),
    _text("Engine", "num_gpu_blocks_override", "--num-gpu-blocks-override", "N", "vLLM: blocks of the cache, as told."),
    _switch("Engine", "language_model_only", "--language-model-only", "No vision and audio towers."),
    _text("Engine", "limit_mm_per_prompt", "--limit-mm-per-prompt", "ITEMS", "image=0,video=0, or JSON."),
    _text("Engine", "speculative_config", "--speculative-config -sc", "JSON", "vLLM's drafts."),
    Flag("enable_lora", ("--enable-lora",), None, "vLLM: one adapter, or --max-loras of them.", "Engine", kind="bool"),
    _switch("Engine", "offline", "--offline", "vLLM's LLM() instead of a server: it takes larger batches by default."),
    _switch("Engine", "enforce_eager", "--enforce-eager", "No CUDA graphs."),
    _text(
        "Engine",
        "max_cudagraph_capture_size",
        "--max-cudagraph-capture-size --cuda-graph-max-bs",
        "N",
        "The largest step with a graph: tokens in vLLM, sequences in SGLang.",
    ),
    _text("Engine", "scheduler_recv_interval", "--scheduler-recv-interval", "N", "SGLang: steps between two looks."),
    _text("Engine", "num_speculative_tokens", "--num-speculative-tokens", "N", "Draft tokens per step."),
    _text("Engine", "max_loras", "--max-loras", "N", "LoRA adapters in memory."),
    _text("Engine", "max_lora_rank", "--max-lora-rank", "N", "Default 16."),
)

LLAMACPP = (
    _text("llama.cpp", "backend", "--backend", "NAME", "cuda, hip, vulkan, metal or sycl. Default: the vendor's own."),
    _text("llama.cpp", "ubatch_size", "--ubatch-size -ub", "TOKENS", "Tokens computed together. Default 512."),
    _text("llama.cpp", "flash_attn", "--flash-attn -fa", "WHEN", "on, off or auto (default: on since September 2025)."),
    _text("llama.cpp", "n_gpu_layers", "--n-gpu-layers -ngl", "N", "Layers on the GPU, the output one of them."),
    _text("llama.cpp", "n_cpu_moe", "--n-cpu-moe -ncmoe", "N", "Layers whose experts stay with the CPU."),
    _text(
        "llama.cpp",
        "host_memory_bandwidth",
        "--host-memory-bandwidth",
        "RATE",
        "96GB/s, or a host: ddr5-6000, epyc-9004. Default: ddr5-5600.",
    ),
)

NUMBERS = (
    _text("Numbers", "dtype", "--dtype", "TYPE", "bf16, fp16 or fp32. Default: the config's."),
    _text("Numbers", "quantization", "--quantization -q", "SCHEME", "Store the weights as fp8, awq, gptq, nvfp4, ..."),
    _text("Numbers", "kv_cache_dtype", "--kv-cache-dtype", "TYPE", "auto, bf16, fp8, int8, nvfp4, ..."),
    _text("Numbers", "cache_type_k", "--cache-type-k -ctk", "TYPE", "llama.cpp: of keys; values have f16 or -ctv's."),
    _text("Numbers", "cache_type_v", "--cache-type-v -ctv", "TYPE", "llama.cpp: of values."),
    _text("Numbers", "mamba_ssm_cache_dtype", "--mamba-ssm-cache-dtype", "TYPE", "Recurrent state: auto, bf16, fp32."),
)

MEMORY = (
    _text("Memory", "gpu_memory_utilization", "--gpu-memory-utilization", "SHARE", "Share the engine may use."),
    _text("Memory", "mem_fraction_static", "--mem-fraction-static", "SHARE", "SGLang: share of weights and pools."),
    _text(
        "Memory",
        "free_gpu_memory_fraction",
        "--kv-cache-free-gpu-memory-fraction --free-gpu-memory-fraction",
        "SHARE",
        "TensorRT-LLM: share of what the weights leave.",
    ),
    _text("Memory", "kv_cache_memory_bytes", "--kv-cache-memory-bytes", "BYTES", "vLLM: the pool per GPU; 25G."),
    _text("Memory", "kv_memory_bytes", "--kv-memory", "SIZE", "Set the cache pool per GPU outright: 50GB, 46GiB."),
    _text("Memory", "overhead_bytes", "--overhead", "SIZE", "Memory per GPU besides weights and cache: 3GiB."),
    _text("Memory", "cpu_offload_bytes", "--cpu-offload-gb", "GIB", "Weights kept in CPU memory, GiB per GPU."),
    _text(
        "Memory", "offload_group_size", "--offload-group-size", "N", "Of every N layers, fetch the last from the host."
    ),
    _text("Memory", "offload_num_in_group", "--offload-num-in-group", "N", "How many of each N layers those are (1)."),
    _text("Memory", "offload_prefetch_step", "--offload-prefetch-step", "N", "Layers that are fetched ahead (1)."),
    _text("Memory", "swap_space_bytes", "--swap-space", "GIB", "CPU swap space, GiB per GPU."),
)

# Fields that are one engine's own name for another: kvcalc.answers.own_names puts them into it.
OWN_NAMES = frozenset(
    (
        *("speculative_config", "enable_lora", "cache_type_k", "cache_type_v"),
        *("mem_fraction_static", "free_gpu_memory_fraction", "kv_cache_memory_bytes"),
    )
)

COST = (
    _text("Cost", "price_usd_per_hour", "--price", "USD", "Per GPU-hour. Default: the dated list price."),
    _text("Cost", "price_file", "--price-file", "FILE", "A TOML of your prices, by GPU or machine."),
    _text("Cost", "pricing", "--pricing", "KIND", "Of a cloud's machine: on-demand (default), spot, reserved."),
)

STRICT = (Flag("strict", ("--strict",), None, "Keys of a config that are not understood are errors.", "Where", "bool"),)

SERVE = (
    _text("Where", "serve", "--serve", "COMMAND", "Model and flags from a serving command: 'vllm serve ...'."),
    *STRICT,
)

WORKLOAD = (
    _text("Workload", "context", "--context", "TOKENS", "Cached tokens per sequence. Default: max_model_len."),
    _text("Workload", "batch", "--batch", "N", "Sequences in the step. Default: all that fit."),
    _text("Workload", "input_len", "--input-len --isl", "TOKENS", "Prompt tokens of a request."),
    _text("Workload", "output_len", "--output-len --osl", "TOKENS", "Output tokens of a request."),
)

CONCURRENCY = (
    _text("Workload", "concurrency", "--concurrency", "N", "Clients of each replica. Default: all that run at once."),
)

SERVED = (
    *CONCURRENCY,
    _text("Workload", "num_prompts", "--num-prompts", "N", "Requests in all, of each replica. Default: 10 a client."),
    _switch("Workload", "equal_lengths", "--equal-lengths", "All requests are of the same lengths."),
    _text("Workload", "prefix_hit", "--prefix-hit", "TOKENS", "Of each prompt, tokens whose cache is there already."),
)

TARGETS = (_text("Workload", "tpot_s", "--tpot", "TIME", "Target for the time per output token: 50ms."),)

OUTPUT = (
    _text("Output", "format", "--format -f", "NAME", "table, json, csv or md."),
    Flag("json", ("--json",), None, "Short for --format json.", "Output", kind="bool"),
    _text("Output", "output", "-o --output", "FILE", "Write to FILE; - is stdout."),
    Flag("explain", ("--explain",), None, "Show each figure's formula, values and source.", "Output", kind="bool"),
)

BASELINE = (_text("Output", "baseline", "--baseline", "FILE", "What --json wrote before: say what has changed since."),)

DRAFT = (
    _text("Engine", "draft", "--draft", "MODEL", "What drafts: a model, or mtp, eagle-3, ... It takes memory."),
    Flag(
        "acceptance",
        ("--acceptance",),
        "A",
        "Of drafts: times are with them. Repeated: by position.",
        "Engine",
        "texts",
    ),
)

SERVING = (*SERVE, *LAYOUT, *ENGINE, *LLAMACPP, *NUMBERS, *MEMORY, *COST, *DRAFT)
