"""Measured memory budgets against the predicted ones: the part of accuracy_capacity.py that is about the pool.

Two checks a case: `pool_gib` is given the weights that the log printed, `pool_from_config_gib` counts them from the
config. Both pass when the printed pool lies in the predicted range.
"""

import re
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from kvcalc.catalog.gpus import load_gpu
from kvcalc.engines import budget_of_start, memory_before_cache
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.engines.memory.data import memory_constants
from kvcalc.engines.memory.shape import Encoder, ProfileShape, profile_shape
from kvcalc.engines.memory.start import Observed, Start
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.versions import parse_version
from kvcalc.units import GIB

Case = dict[str, Any]
ReadModel = Callable[[Case], ModelSpec | None]
LoadedBytes = Callable[[ModelSpec, Deployment, GpuSpec], int]

ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
PRINTED = 0.01 * GIB  # a log has two decimals
QUANTIZED = re.compile(r"quantized|fp8|int[48]|w[48]a|awq|gptq|bnb|[48]-bit", re.IGNORECASE)
WEIGHT_FIELDS = ("weights_gib", "kv_gib")


def budget_case(case: Case, read_model: ReadModel, loaded_bytes: LoadedBytes | None = None) -> Case:
    """One case's checks, or the reason why it has none.

    Args:
        case: a record of budgets.json.
        read_model: the spec that the case's `config` names, None without one.
        loaded_bytes: weights on the fullest GPU, from a spec; None leaves `pool_from_config_gib` out.
    """
    answer: Case = {
        "id": case.get("id"),
        "engine": case.get("engine"),
        "version": case.get("engine_version"),
        "independent": case.get("independent_test", True),
        "checks": [],
        "reason": None,
    }
    try:
        gpu, deployment, observed = gpu_of(case), deployment_of(case), observed_of(case)
        model = read_model(case)
        shape = shape_of(case, model, deployment)
        length = deployment.max_model_len or (model.max_context if model else None)
        for field in WEIGHT_FIELDS:
            _need(case, field)
        weights = int(float(case["weights_gib"]) * GIB)
        if deployment.pipeline_parallel_size > 1:
            observed = _of_its_stage(case, shape, gpu, deployment, observed)
        budget = budget_of_start(Start(shape, gpu, deployment, weights, max_model_len=length, observed=observed))
        answer["checks"].append(_check("pool_gib", budget, case))
        if model is not None and loaded_bytes is not None and _is_served(case, model):
            budget = memory_before_cache(model, gpu, deployment, loaded_bytes(model, deployment, gpu), observed)
            answer["checks"].append(_check("pool_from_config_gib", budget, case))
            answer["plain"] = model.quantization is None
    except KvcalcError as error:
        answer["reason"] = error.message
    return answer


def _of_its_stage(
    case: Case, shape: ProfileShape, gpu: GpuSpec, deployment: Deployment, observed: Observed
) -> Observed:
    """A record of a pipeline has the lines of one stage; whether that is the last is seen by its printed peak."""
    inner = replace(observed, inner_stage=True)
    printed = case.get("activation_gib")
    if printed is None:
        return observed

    def distance(seen: Observed) -> float:
        activation = budget_of_start(Start(shape, gpu, deployment, 0, observed=seen)).activation
        return abs((activation.peak.value if activation else 0) / GIB - float(printed))

    return min((observed, inner), key=distance)


def _is_served(case: Case, model: ModelSpec) -> bool:
    """The config describes what was served: some records have that of the plain model, or of its text model alone."""
    plain = "quantization" not in case and not QUANTIZED.search(case.get("model", ""))
    return plain == (model.quantization is None) and ("encoder" not in case or bool(model.towers))


def _need(case: Case, field: str) -> Any:
    if case.get(field) is None:
        raise KvcalcError(f"the log does not say {field}", hint="")
    return case[field]


def _check(name: str, budget: MemoryBudget, case: Case) -> Case:
    if budget.pool is None:
        raise KvcalcError(f"not predicted: {budget.reason}", hint="")
    want, have = case["kv_gib"], budget.pool.value / GIB
    low, high = (budget.pool.low - PRINTED) / GIB, (budget.pool.high + PRINTED) / GIB
    return {
        "name": name,
        "have": round(have, 3),
        "want": want,
        "error": round(have - want, 3),
        "tolerance": round(max(have - low, high - have), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "passed": low <= want <= high,
    }


def gpu_of(case: Case) -> GpuSpec:
    """The card by its name where it has one, with the total that the log printed."""
    text = re.sub(r"\(.*?\)|\bx\d+$", "", case["gpu"]).strip()
    total = case.get("gpu_total_gib")
    if total is None and case["engine"] == "sglang" and "avail_before_load_gib" in case:
        total = case["avail_before_load_gib"] + memory_constants("sglang")["initial_use"]["one"]["value"]
    try:
        gpu = load_gpu(text)
    except KvcalcError:
        if total is None:
            raise
        size = int(float(total) * GIB)
        gpu = GpuSpec(
            name="unnamed",
            title=case["gpu"],
            vendor="unknown",
            architecture="unknown",
            memory_bytes=size,
            usable_memory_bytes=size,
            memory_bandwidth_bytes_per_s=1e12,
            peak_flops={"bf16": 1e14},
            unified_memory="unified" in case["gpu"],
        )
    return gpu if total is None else replace(gpu, usable_memory_bytes=int(float(total) * GIB))


def deployment_of(case: Case) -> Deployment:
    """The flags that the case states; the rest is left to the engine's defaults."""
    version = re.match(r"[\d.]+", case.get("engine_version", ""))
    utilization = case.get("util") or case.get("mem_fraction_static") or case.get("free_gpu_memory_fraction")
    if utilization is None and case["engine"] == "vllm":
        _need(case, "util")
    return checked(
        Deployment,
        {
            "engine": ENGINES[case["engine"]],
            "engine_version": version[0].rstrip(".") if version else None,
            "dtype": case.get("dtype", "auto"),
            "tensor_parallel_size": case.get("tp") or 1,
            "pipeline_parallel_size": case.get("pp") or 1,
            "enable_expert_parallel": bool(case.get("ep")),
            "gpu_memory_utilization": utilization,
            "max_model_len": case.get("max_model_len"),
            "max_num_seqs": case.get("max_num_seqs"),
            "max_num_batched_tokens": case.get("max_num_batched_tokens") or case.get("chunked_prefill_size"),
            "enforce_eager": bool(case.get("enforce_eager")),
        },
    )


def observed_of(case: Case) -> Observed:
    """What the log printed beside the flags."""
    samplers = {"native": "native", "flashinfer": "fused", "triton": "fused"}
    return checked(Observed, {"runner": case.get("runner"), "sampler": samplers.get(case.get("sampler", ""))})


def shape_of(case: Case, model: ModelSpec | None, deployment: Deployment) -> ProfileShape:
    """From the case's own dimensions, else from the config; SGLang needs none where its fraction is given."""
    dims = case.get("model_dims") or {}
    if not dims:
        if model is not None:
            return profile_shape(model, deployment)
        if case["engine"] == "sglang" and deployment.gpu_memory_utilization is not None:
            return ProfileShape(hidden=1, vocab=1, layers=1)
        raise KvcalcError("neither a config nor model_dims", hint="")
    sparse = "experts" in dims
    beside = dims["intermediate"] if sparse and dims["intermediate"] != dims["moe_intermediate"] else 0
    vision = [dims[key] for key in dims if "vision" in key or "encoder" in key]
    budget = (case.get("encoder") or {}).get("budget_tokens") or 0
    return ProfileShape(
        hidden=dims["hidden"],
        vocab=dims["vocab"],
        layers=-(-dims["layers"] // deployment.pipeline_parallel_size),
        element_bytes=4 if case.get("dtype") == "float32" else 2,
        dense_width=0 if sparse else dims["intermediate"],
        shared_width=beside,
        expert_width=dims.get("moe_intermediate", 0),
        top_k=dims.get("top_k", 0),
        quantized="quantization" in case,
        images="encoder" in case,
        encoder=Encoder(hidden=vision[0], width=vision[1], gated=_gated(vision), largest_item_tokens=budget)
        if len(vision) == 2
        else None,
    )


def _gated(vision: list[int]) -> bool:
    """A tower without a gate is at least three times as wide as its hidden size; a gated one is narrower."""
    return vision[1] < 3 * vision[0]


def budget_summary(answers: Iterable[Case]) -> dict[str, Any]:
    """Errors by version, in GiB: the versions whose rule is well tested, and each of the others apart."""
    groups: dict[str, list[Case]] = {}
    for answer in answers:
        for check in answer["checks"]:
            group = f"{check['name']}: {_version_group(answer)}"
            if check["name"] == "pool_from_config_gib" and not answer["plain"]:
                group += ", quantized"
            groups.setdefault(group, []).append(check)
    return {
        name: {
            "cases": len(checks),
            "median_abs_error": round(median(abs(check["error"]) for check in checks), 3),
            "worst": max((check["error"] for check in checks), key=abs),
            "in_range": round(sum(check["passed"] for check in checks) / len(checks), 3),
        }
        for name, checks in sorted(groups.items())
    }


def _version_group(answer: Case) -> str:
    if answer["engine"] != "vllm" or answer["version"] is None:
        return str(answer["engine"])
    version = parse_version(answer["version"])
    if (0, 10, 0) <= version < (0, 27, 0):
        return "vLLM 0.10-0.26"
    return f"vLLM {version[0]}.{version[1]}"
