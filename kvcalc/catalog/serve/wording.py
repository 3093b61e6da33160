"""A deployment in the settings of an engine's command line: meaning.py the other way round.

Each function yields what to say of a deployment, a choice of ways a line: the first that the version has is printed.
Values are text, as the flag takes it, or True and False for switches.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kvcalc.specs.deployment import SETTLED, Deployment

Settings = Mapping[str, str | bool]
GIB_FIELDS = ("cpu_offload_bytes", "swap_space_bytes")
PLAIN = (
    *("tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size", "dtype", "quantization"),
    *("kv_cache_dtype", "mamba_ssm_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens"),
    *("block_size", "gpu_memory_utilization", "enforce_eager", *GIB_FIELDS),
    "max_cudagraph_capture_size",
    *("language_model_only", "max_mamba_cache_size", "scheduler_recv_interval", "enable_dp_attention"),
    *("enable_chunked_prefill", "offload_group_size", "offload_num_in_group", "offload_prefetch_step"),
    *("num_gpu_blocks_override", "ctx_size", "parallel", "n_gpu_layers", "n_cpu_moe", "ubatch_size", "flash_attn"),
)


OWN_DRAFTER = "own drafter"  # among the fields given: the model has layers that draft


class Said(NamedTuple):
    """Fields of a deployment, and the ways to say them."""

    fields: tuple[str, ...]
    ways: tuple[Settings, ...]


def given_fields(deployment: Deployment) -> dict[str, Any]:
    """The fields that are not as they are when nothing is said; the engine is the command itself."""
    usual = vars(Deployment())
    left = ("engine", "engine_version", *SETTLED)
    return {name: value for name, value in vars(deployment).items() if name not in left and value != usual.get(name)}


def _plain(given: Mapping[str, Any], *also: str) -> Iterator[Said]:
    for name in (*PLAIN, *also):
        if name in given:
            yield Said((name,), ({name: text_of(given[name])},))


def text_of(value: Any) -> str | bool:
    """A value as a command line has it.

    >>> text_of(0.9), text_of(8192), text_of(True), text_of("fp8")
    ('0.9', '8192', True, 'fp8')
    """
    if isinstance(value, bool):
        return value
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def vllm(given: Mapping[str, Any]) -> Iterator[Said]:
    """vLLM's flags are kvcalc's, but for what stands in JSON."""
    also = ("data_parallel_size", "enable_expert_parallel", "enable_prefix_caching", "kv_memory_bytes")
    yield from _plain(given, *also)
    if "num_redundant_experts" in given:
        experts = str(given["num_redundant_experts"])
        yield Said(
            ("num_redundant_experts",), ({"eplb.num_redundant_experts": experts}, {"num_redundant_experts": experts})
        )
    yield from _lora(given)
    yield from _nodes(given)
    if "num_speculative_tokens" in given:
        spec = _drafter(given, "ngram", "mtp")
        spec["speculation.num_speculative_tokens"] = str(given["num_speculative_tokens"])
        yield Said(_drafted(spec), (spec,))
    if "limit_mm_per_prompt" in given:
        pairs = (pair.partition("=") for pair in str(given["limit_mm_per_prompt"]).split(","))
        yield Said(("limit_mm_per_prompt",), ({f"limit_mm_per_prompt.{kind}": count for kind, _, count in pairs},))


def sglang(given: Mapping[str, Any]) -> Iterator[Said]:
    """Whole experts are a number of ranks; one branch of N drafts is N + 1 tokens to verify."""
    yield from _plain(given, "data_parallel_size", "num_redundant_experts")
    yield from _expert_ranks(given)
    yield from _lora(given)
    yield from _nodes(given)
    if given.get("enable_prefix_caching") is False:
        yield Said(("enable_prefix_caching",), ({"enable_prefix_caching": False},))
    if "num_speculative_tokens" in given:
        count = int(given["num_speculative_tokens"])
        spec = _drafter(given, "NGRAM", "NEXTN")
        spec |= {"speculation.num_steps": str(count), "speculation.topk": "1"}
        spec["speculation.num_draft_tokens"] = str(count + 1)
        yield Said(_drafted(spec), (spec,))


def trtllm(given: Mapping[str, Any]) -> Iterator[Said]:
    """What has no flag of its own is said with `--set`."""
    yield from _plain(given, "enable_prefix_caching", "kv_memory_bytes", "gpus_per_node")
    yield from _expert_ranks(given)
    yield from _lora(given)
    if "num_speculative_tokens" in given:
        spec = _drafter(given, "NGram", "MTP")
        spec["speculation.num_speculative_tokens"] = str(given["num_speculative_tokens"])
        yield Said(_drafted(spec), (spec,))


def llamacpp(given: Mapping[str, Any]) -> Iterator[Said]:
    """Keys and values have their types apart."""
    yield from _plain(
        {name: value for name, value in given.items() if name != "kv_cache_dtype"}, "enable_prefix_caching"
    )
    if "quantization" in given:
        yield Said(("quantization",), ({},))  # the file's own
    yield from _cards(given)
    if "kv_cache_dtype" in given:
        keys, _, values = str(given["kv_cache_dtype"]).partition(",")
        yield Said(("kv_cache_dtype",), ({"cache_type_k": keys, "cache_type_v": values or keys},))
    if "draft" in given:
        count = str(given.get("num_speculative_tokens", 3))
        spec = {"speculation.model": str(given["draft"]), "speculation.num_speculative_tokens": count}
        yield Said(_drafted(spec), (spec,))


def _cards(given: Mapping[str, Any]) -> Iterator[Said]:
    """llama.cpp either shares out layers or splits each."""
    stages, ranks = _ranks(given, "pipeline_parallel_size"), _ranks(given, "tensor_parallel_size")
    if stages > 1 and ranks == 1:
        yield Said(("pipeline_parallel_size",), ({"tensor_split": ",".join("1" * stages)},))
    if ranks > 1 and stages == 1:
        split: dict[str, str | bool] = {"split_mode": "row", "tensor_split": ",".join("1" * ranks)}
        yield Said(("tensor_parallel_size",), (split,))


WORDINGS: dict[str, Callable[[Mapping[str, Any]], Iterator[Said]]] = {
    "vllm": vllm,
    "sglang": sglang,
    "trtllm": trtllm,
    "llamacpp": llamacpp,
}


def _lora(given: Mapping[str, Any]) -> Iterator[Said]:
    if "max_loras" in given:
        settings: dict[str, str | bool] = {"enable_lora": True, "max_loras": str(given["max_loras"])}
        if "max_lora_rank" in given:
            settings["max_lora_rank"] = str(given["max_lora_rank"])
        yield Said(("max_loras", "max_lora_rank"), (settings,))


def _ranks(given: Mapping[str, Any], *names: str) -> int:
    product = 1
    for name in names:
        product *= int(given.get(name, 1))
    return product


def _expert_ranks(given: Mapping[str, Any]) -> Iterator[Said]:
    ranks = _ranks(given, "tensor_parallel_size")
    if given.get("enable_expert_parallel") and ranks > 1:
        yield Said(("enable_expert_parallel",), ({"expert_parallel_size": str(ranks)},))


def _nodes(given: Mapping[str, Any]) -> Iterator[Said]:
    gpus = _ranks(given, "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    size = int(given.get("gpus_per_node", gpus))
    if size < gpus and gpus % size == 0:
        yield Said(("gpus_per_node",), ({"nodes": str(gpus // size)},))


def _drafter(given: Mapping[str, Any], without: str, own: str) -> dict[str, str | bool]:
    """Who drafts: a model; else the layers that the target has for it; else nobody but the prompt's own n-grams."""
    draft = str(given.get("draft") or "")
    if draft.lower().replace("-", "") in ("ngram", "mtp", "nextn", "eagle", "eagle2", "eagle3", "medusa", "suffix"):
        return {"speculation.method": draft}
    if draft:
        return {"speculation.model": draft}
    return {"speculation.method": own if given.get(OWN_DRAFTER) else without}


def _drafted(spec: Settings) -> tuple[str, ...]:
    """The fields that a drafter's settings say: a method's name alone does not say which model drafts."""
    return ("num_speculative_tokens", "draft") if "speculation.model" in spec else ("num_speculative_tokens",)
