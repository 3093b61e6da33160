"""What was collected of a start → LogFacts; what no engine can have meant is named and not used.

Source: a judgement: what is out of every card's range was garbled
"""

from collections.abc import Mapping, Sequence

from kvcalc.engines.logs.facts import LogFacts, Value
from kvcalc.engines.logs.starts import Start
from kvcalc.specs.build import build

_BYTES = (
    *("total", "free", "requested", "weights", "consumed", "non_torch", "activation", "activation_with_graphs"),
    *("graphs", "graphs_estimate", "pool", "free_before_load", "free_after_load", "free_after_pool"),
    *("needed", "tried", "free_at_failure", "in_use", "torch_allocated", "torch_idle"),
)
_TEXT = ("version", "model", "model_file", "architecture", "gpu", "runner", "sampler")
_PLAIN = (*_TEXT, "blocks", "block_size", "tokens", "concurrency", "estimated_max_len", "encoder_tokens")
# What measurement noise can push below zero; nothing else can be.
_BELOW_ZERO = {"non_torch", "activation", "activation_with_graphs", "graphs", "graphs_estimate"}
LARGEST_CARD = 2**40  # bytes: no GPU has as much
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp"}


def facts_of(start: Start, all_starts: Sequence[Start], aside: int) -> LogFacts:
    """The facts of one start, with the others of the text in words."""
    facts = _summed(start)
    unused: list[str] = []
    short = _short(facts)
    _sensible(facts, unused)
    if aside:
        unused.append(f"{aside} lines of capacity that could be of either of several starts")
    fields: dict[str, object] = {name: facts[name] for name in _PLAIN if name in facts}
    fields |= {f"{name}_bytes": facts[name] for name in _BYTES if name in facts}
    fields = {name: str(value) if name in _TEXT else value for name, value in fields.items()}
    model = start.settings.get("model", facts.get("model"))
    first = next((rank for rank, _ in start.caches), None)
    return build(
        LogFacts,
        fields
        | {
            "engine": start.votes.most_common(1)[0][0] if start.votes else start.engine,
            "model": None if model is None else str(model),
            "settings": start.settings,
            "short_bytes": short,
            "caches": tuple(cache for rank, cache in start.caches if rank == first),
            "refusals": tuple(start.refusals),
            "lines": tuple(start.lines),
            "starts": len(all_starts),
            "others": tuple(_described(other) for other in all_starts if other is not start),
            "unused": tuple(unused),
            "first_line": start.first,
            "last_line": start.last,
        },
    )


def _summed(start: Start) -> dict[str, Value]:
    """llama.cpp's buffers over the GPUs, and its cells."""
    facts = dict(start.facts)
    for name in {buffer for buffer, _ in start.buffers}:
        facts[name] = sum(
            size for (buffer, device), size in start.buffers.items() if buffer == name and _on_gpu(device)
        )
    if "loaded" in facts:
        facts.setdefault("weights", facts["loaded"])
    cells = [cache.tokens for _, cache in start.caches if cache.tokens]
    if cells or "cells" in facts:
        facts.setdefault("tokens", max(cells, default=facts.get("cells", 0)))
    return facts


def _short(facts: dict[str, Value]) -> int | None:
    """A pool below zero is no pool: vLLM prints what is missing so."""
    pool = facts.get("pool")
    if isinstance(pool, int) and pool < 0:
        facts["pool"] = 0
        return -pool
    return None


def _sensible(facts: dict[str, Value], unused: list[str]) -> None:
    for name in _BYTES:
        value = facts.get(name)
        if not isinstance(value, int | float):
            continue
        if (value < 0 and name not in _BELOW_ZERO) or abs(value) > LARGEST_CARD:
            unused.append(f"{name.replace('_', ' ')} of {value:,} bytes")
            del facts[name]
    total, pool = facts.get("total"), facts.get("pool")
    if isinstance(total, int) and isinstance(pool, int) and pool > total > 0:
        unused.append(f"a pool of {pool:,} bytes on a card of {total:,}")
        del facts["pool"]


def _described(start: Start) -> str:
    facts: Mapping[str, Value] = start.facts
    name = ENGINES.get(start.engine or "", "an engine")
    version = f" {facts['version']}" if "version" in facts else ""
    model = start.settings.get("model", facts.get("model"))
    what = f", {model}" if model is not None else ""
    end = ", refused" if start.refusals else "" if start.says_memory else ", nothing of memory"
    return f"{name}{version}{what}, lines {start.first} to {start.last}{end}"


def _on_gpu(device: str) -> bool:
    """llama.cpp names its buffers by device; the host's do not count."""
    return not device.strip().upper().startswith(("CPU", "CUDA_HOST", "HOST", "ROCM_HOST", "VULKAN_HOST"))
