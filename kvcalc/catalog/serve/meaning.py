"""What an engine's settings mean together: the same letters are not the same thing in every engine.

Each function takes settings by the tables' names and gives fields of a Deployment or a Workload (values as kvcalc's
flags take them), and what else `inputs` shows.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvcalc.catalog.serve.values import Value
from kvcalc.errors import KvcalcError

Settings = Mapping[str, Value]


class Meaning(NamedTuple):
    """Fields, by their names; `unread` are settings that these leave without effect, with the reason."""

    fields: dict[str, Value]
    speculation: dict[str, Any] | None = None
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def vllm(settings: Settings) -> Meaning:
    """Every flag on its own, but LoRA (nothing without its switch), drafts and what turns graphs off."""
    left = dict(settings)
    lora, unread = _lora(left, default="1")
    fields = lora | _nodes(left)
    level, mode = left.pop("optimization_level", None), left.get("compilation.cudagraph_mode")
    if level == "0" or (isinstance(mode, str) and mode.upper() in ("NONE", "0")) or left.get("compilation.mode") == "0":
        fields["enforce_eager"] = True
    if "eplb.num_redundant_experts" in left:
        fields["num_redundant_experts"] = left["eplb.num_redundant_experts"]
    spec = _part(left, "speculation")
    limits = _part(left, "limit_mm_per_prompt")
    if limits:
        fields["limit_mm_per_prompt"] = ",".join(f"{kind}={count}" for kind, count in limits.items() if "." not in kind)
    drafts = spec.get("num_speculative_tokens")
    shown = {"model": None, "method": _vllm_method(spec), **spec, "num_speculative_tokens": _whole(drafts)}
    fields |= _drafts(shown) if spec else {}
    fields |= {name: value for name, value in left.items() if "." not in name}
    return Meaning(fields, shown if spec else None, unread)


def sglang(settings: Settings) -> Meaning:
    """Ranks of experts are a number; a chunk of -1 is none; draft tokens count the one that the target adds."""
    left = dict(settings)
    lora, unread = _lora(left, default="8")
    fields = lora | _nodes(left) | _expert_ranks(left)
    if left.get("max_num_batched_tokens") == "-1":
        del left["max_num_batched_tokens"]
    if left.get("quantization") == "unquant":
        del left["quantization"]
    if str(left.pop("graphs", "")).lower() == "disabled":
        fields["enforce_eager"] = True
    spec = _part(left, "speculation")
    steps, nodes = spec.get("num_steps"), spec.get("num_draft_tokens")
    drafts = steps or (str(_whole(nodes) - 1) if nodes and spec.get("topk", "1") == "1" else None)
    shown: dict[str, Any] = {"model": None, **{name: _whole(value, text=True) for name, value in spec.items()}}
    shown["num_speculative_tokens"] = _whole(drafts) if drafts else None
    fields |= _drafts(shown) if spec else {}
    return Meaning(fields | left, shown if spec else None, unread)


def trtllm(settings: Settings) -> Meaning:
    """Ranks of experts are a number; what a flag and its file both set has been settled before."""
    left = dict(settings)
    lora, unread = _lora(left, default="1")
    fields = lora | _expert_ranks(left)
    spec = _part(left, "speculation")
    shown = {"model": None, **spec, "num_speculative_tokens": _whole(spec.get("num_speculative_tokens", "1"))}
    fields |= _drafts(shown) if spec else {}
    return Meaning(fields | left, shown if spec else None, unread)


EVERY_LAYER = "4096"  # more than any model has


def llamacpp(settings: Settings) -> Meaning:
    """K and V have types of their own; a repository stands for a file; llama-bench's tests take one sequence."""
    left = dict(settings)
    keys, values = left.pop("cache_type_k", None), left.pop("cache_type_v", None)
    fields: dict[str, Value] = {}
    if keys or values:
        keys, values = keys or "f16", values or "f16"
        fields["kv_cache_dtype"] = keys if keys == values else f"{keys},{values}"
    repository, file = left.pop("repository", None), left.pop("repository_file", None)
    if repository and "model" not in left:
        left["model"] = f"{repository}/{file}" if file else str(repository)
    if left.get("ctx_size") == "0":
        del left["ctx_size"]  # the model's own, as where nothing is said
    fields |= _split(left)
    uneven = len({share for share in _shares(left) if share.strip("0.")}) > 1
    notes = ("--serve: the cards are taken to hold equal shares: -ts is not modelled",) if uneven else ()
    for name in CARDS:
        left.pop(name, None)
    if not str(left.get("n_gpu_layers", "0")).isdigit():
        del left["n_gpu_layers"]  # all, auto or -1: as many as there are
    if left.pop("cpu_moe", None):
        fields["n_cpu_moe"] = EVERY_LAYER
    if "flash_attn" in left:
        left["flash_attn"] = {"true": "on", "1": "on", "false": "off", "0": "off"}.get(
            str(left["flash_attn"]), left["flash_attn"]
        )
    bench = _part(left, "bench")
    if bench:
        fields |= {"parallel": "1", "ctx_size": str(sum(int(value) for value in bench.values()) or 1)}
    spec = _part(left, "speculation")
    drafts = spec.get("num_speculative_tokens", "3" if spec.get("model") else "0")
    shown = {"method": "draft", "model": None, **spec, "num_speculative_tokens": _whole(drafts)}
    fields |= _drafts(shown) if spec.get("model") else {}
    return Meaning(fields | left, shown if spec.get("model") else None, notes=notes)


CARDS = ("tensor_split", "split_mode", "device", "visible")


def _shares(settings: Settings) -> list[str]:
    return [share for share in re.split("[,/]", str(settings.get("tensor_split", "")).strip()) if share]


def _split(settings: Settings) -> dict[str, Value]:
    """llama.cpp's cards: layers are shared out, or rows and tensors of each layer; `none` leaves all to one."""
    used = [share for share in _shares(settings) if share.strip("0.")]
    devices = [name for name in re.split("[,/]", str(settings.get("device", ""))) if name and name != "none"]
    visible = [name for name in str(settings.get("visible", "")).split(",") if name]
    count = len(used) or len(devices) or len(visible)
    mode = settings.get("split_mode", "layer")
    if count < 2 or mode == "none":
        return {}
    return {"tensor_parallel_size" if mode in ("row", "tensor") else "pipeline_parallel_size": str(count)}


MEANINGS: dict[str, Callable[[Settings], Meaning]] = {
    "vllm": vllm,
    "sglang": sglang,
    "trtllm": trtllm,
    "llamacpp": llamacpp,
}


def _part(settings: dict[str, Value], name: str) -> dict[str, Any]:
    """Takes `name.x` out as `x`."""
    found = {key: settings.pop(key) for key in list(settings) if key.startswith(name + ".")}
    return {key[len(name) + 1 :]: value for key, value in found.items()}


def _whole(value: Any, text: bool = False) -> Any:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    if text or value is None:
        return value
    raise KvcalcError(f"--serve: {value!r} is no number of draft tokens", hint="write a whole number, such as 3")


def _lora(settings: dict[str, Value], default: str) -> tuple[dict[str, Value], tuple[str, ...]]:
    if settings.pop("enable_lora", False):
        return {"max_loras": settings.pop("max_loras", default)}, ()
    unread = tuple(name for name in ("max_loras", "max_lora_rank") if settings.pop(name, None) is not None)
    return {}, unread


def _nodes(settings: dict[str, Value]) -> dict[str, Value]:
    """GPUs of a node, from the number of nodes."""
    nodes = _whole(settings.pop("nodes", "1"))
    sizes = ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"]
    if settings.get("enable_dp_attention"):
        sizes.remove("data_parallel_size")  # replicas of attention are inside the tensor-parallel GPUs
    gpus = 1
    for name in sizes:
        value = settings.get(name, "1")
        if not (isinstance(value, str) and value.isdecimal()):
            return {}
        gpus *= int(value)
    return {"gpus_per_node": str(gpus // nodes)} if nodes > 1 and gpus % nodes == 0 else {}


def _expert_ranks(settings: dict[str, Value]) -> dict[str, Value]:
    ranks = settings.pop("expert_parallel_size", "1")
    return {"enable_expert_parallel": True} if str(ranks).isdecimal() and int(str(ranks)) > 1 else {}


def _drafts(shown: Mapping[str, Any]) -> dict[str, Value]:
    """The fields of speculation: how many tokens, and the model that drafts them, if it is another one."""
    count, drafter = shown.get("num_speculative_tokens"), shown.get("model")
    fields: dict[str, Value] = {} if count is None else {"num_speculative_tokens": str(count)}
    return fields | ({"draft": str(drafter)} if drafter else {})


def _vllm_method(spec: Mapping[str, Any]) -> str | None:
    """vLLM reads a missing method off the draft model's name."""
    if "method" in spec or "model" not in spec:
        return None if "method" not in spec else str(spec["method"])
    name = str(spec["model"]).lower()
    known = ("eagle3", "eagle", "medusa", "dflash", "ngram", "mlp_speculator")
    return next((method for method in known if method in name), "draft_model")
