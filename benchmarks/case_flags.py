"""The settings of a case, as flags: cases write versions, cache types and sizes the way people do."""

import re
from typing import Any

from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment

Case = dict[str, Any]
ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm", "llama.cpp": "llamacpp"}
SIXTEEN_BITS = {"16-bit": "bf16", "bf16": "bf16", "fp16": "fp16", "f16": "f16"}
FP8_CACHE = r"fp8[ -]KV|KV[ -](?:cache[ -])?fp8|kv[_-]cache[_-]dtype[ =]fp8"
LAST_BY_BLOCKS = "0.20"  # the last vLLM that printed blocks // groups
FIRST_BY_CONCURRENCY = "0.25"  # one that prints concurrency × length, before windows reserved for two batches


def version_of(case: Case) -> str | None:
    """The version, where the case gives one; else one that prints by the rule that the case names."""
    text = str(case.get("engine_version") or "")
    match = re.match(r"v?(\d+\.\d+(?:\.\d+)?)(?![\dx])", text)
    rule = case.get("report_rule")
    if match is None:
        return {"old": LAST_BY_BLOCKS, "new": FIRST_BY_CONCURRENCY}.get(str(rule))
    return match[1]


def versions_of(case: Case) -> tuple[str | None, ...]:
    """Both ends of what a question gives as a version: `0.17-0.20` a range, `0.2x` ten of them."""
    text = str(case.get("engine_version") or "")
    span = re.match(r"v?(\d+\.\d+(?:\.\d+)?) ?- ?v?(\d+\.\d+(?:\.\d+)?)", text)
    if span:
        return span[1], span[2]
    tens = re.match(r"v?(\d+\.\d)x", text)
    return (f"{tens[1]}0", f"{tens[1]}9") if tens else (version_of(case),)


def cache_dtype_of(case: Case) -> str:
    """`bf16`, `fp8 (656 B)`, `bf16 latent + fp8 indexer`, `K q8_0 / V f16`; in questions, fp8 stands in the prose."""
    text = str(case.get("kv_cache_dtype") or "")
    if not text:
        prose = " ".join(str(case.get(field) or "") for field in ("model", "notes", "question"))
        return "fp8" if re.search(FP8_CACHE, prose, re.IGNORECASE) else "bf16"
    pair = re.match(r"K (\w+) / V (\w+)", text)
    if pair:
        return f"{pair[1]},{pair[2]}"
    first = text.split()[0]
    return SIXTEEN_BITS.get(first, first)


def tensor_parallel_of(case: Case) -> int:
    """`tp`, else `TP4` in the prose, else the number of cards."""
    if case.get("tp"):
        return int(case["tp"])
    for field in ("gpu", "model", "id", "engine_version", "right_answer"):
        match = re.search(r"\btp(?:_size)?[ =-]?(\d+)\b", str(case.get(field) or ""), re.IGNORECASE)
        if match:
            return int(match[1])
    match = re.search(r"\bx(\d{1,2})\b|\b(\d{1,2}) ?x\b", str(case.get("gpu") or ""))
    return int(match[1] or match[2]) if match else 1


def batched_tokens_of(case: Case) -> int | None:
    if case.get("max_num_batched_tokens"):
        return int(case["max_num_batched_tokens"])
    match = re.search(r"max_num_batched_tokens.*source says (\d+)", str(case.get("fitted") or ""))
    return int(match[1]) if match else None


def deployment_of(case: Case) -> Deployment:
    """The case's flags; a SGLang replica's tensor parallelism is what data parallelism leaves of `tp`."""
    engine = ENGINES[case["engine"]]
    tp, dp = tensor_parallel_of(case), int(case.get("dp") or 1)
    return checked(
        Deployment,
        {
            "engine": engine,
            "engine_version": version_of(case) if engine in ("vllm", "sglang") else None,
            "tensor_parallel_size": tp // dp if engine == "sglang" else tp,
            "pipeline_parallel_size": int(case.get("pp") or 1),
            "data_parallel_size": dp,
            "decode_context_parallel_size": int(case.get("dcp") or 1),
            "kv_cache_dtype": cache_dtype_of(case),
            "max_model_len": case.get("max_model_len"),
            "max_num_batched_tokens": batched_tokens_of(case),
            "block_size": _block_size(case, engine),
            "num_speculative_tokens": int(case.get("spec_tokens") or 0),
            "enable_prefix_caching": {"align": True, "none": False}.get(str(case.get("mamba_cache_mode"))),
        },
    )


def _block_size(case: Case, engine: str) -> int | None:
    """Given only where a flag sets it: vLLM's own choice is checked, not told (256 is a TPU's)."""
    size = case.get("block_size")
    return size if engine == "trtllm" or (engine == "vllm" and size == 256) else None
