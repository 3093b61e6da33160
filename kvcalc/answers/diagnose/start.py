"""From a log's facts to the specs that a prediction needs: model, GPU, deployment."""

from typing import Any

from kvcalc.answers.question import Question, stored_as
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import existing, load_model, without_doubts
from kvcalc.engines import check_version, logged_settings, rules
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, Frozen, replace
from kvcalc.specs.checked import checked, flag_of
from kvcalc.specs.deployment import USUAL_ENGINE, Deployment
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.load import Workload
from kvcalc.specs.model import ModelSpec, MoeMlp

# Settings of a log that are fields of a Deployment as they stand.
SAME = (
    *("tensor_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size", "enable_expert_parallel"),
    *("dtype", "kv_cache_dtype", "mamba_ssm_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens"),
    *("gpu_memory_utilization", "enable_prefix_caching", "enforce_eager", "num_speculative_tokens", "max_lora_rank"),
    *("kv_memory_bytes", "block_size"),
)


class Logged(Frozen):
    """What a prediction can start from; None where the log says nothing and no flag was given."""

    model: ModelSpec | None
    gpu: GpuSpec | None
    deployment: Deployment
    missing: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def question(self) -> Question | None:
        if self.model is None or self.gpu is None:
            return None
        return Question(model=self.model, gpu=self.gpu, deployment=self.deployment, workload=Workload())


def logged(facts: LogFacts, flags: dict[str, Any]) -> Logged:
    """Flags win over the log. `flags` may name `model` and `gpu` beside the fields of a Deployment.

    Raises KvcalcError where a flag is wrong, or where neither log nor flags name the engine.
    """
    given = dict(flags)
    strict = given.pop("strict", False)
    model_name, gpu_name = given.pop("model", None), given.pop("gpu", None)
    missing: list[str] = []
    assumed: list[Assumption] = []
    deployment = _deployment(facts, given, assumed)
    model = _model(facts, model_name, missing)
    if model is not None:
        model = without_doubts(model) if strict else model
        if "enable_expert_parallel" not in given and not any(isinstance(g.mlp, MoeMlp) for g in model.groups):
            deployment = replace(deployment, enable_expert_parallel=False)
        model = _stored(model, deployment, facts, assumed)
    gpu = _gpu(facts, gpu_name, missing)
    return Logged(model=model, gpu=gpu, deployment=deployment, missing=tuple(missing), assumptions=tuple(assumed))


def _deployment(facts: LogFacts, given: dict[str, Any], assumed: list[Assumption]) -> Deployment:
    engine = given.pop("engine", None) or facts.engine
    if engine is None:
        engine = USUAL_ENGINE
        why = "the log does not say which engine wrote it: give --engine if it is another"
        assumed.append(Assumption(name="engine", value=engine, why=why))
    said = facts.settings
    values: dict[str, Any] = {name: said[name] for name in SAME if name in said}
    values |= logged_settings(engine, facts)
    if said.get("enable_lora"):
        values["max_loras"] = said.get("max_loras", 1)
    if said.get("disable_radix_cache"):
        values["enable_prefix_caching"] = False
    if "cpu_offload_gb" in said:
        values["cpu_offload_bytes"] = str(said["cpu_offload_gb"])
    # A value that the log abbreviates or that this engine spells in its own way is left to the default, and said.
    for name, value in list(values.items()):
        try:
            one = checked(Deployment, {name: value})
            check_version(one)
        except KvcalcError:
            del values[name]
            assumed.append(Assumption(name=name, value=None, why=f"the log's {str(value)[:40]!r} was not understood"))
    if "tensor_parallel_size" not in {**values, **given} and not rules(engine).TAKES_WHAT_IS_ASKED:
        why = "the log does not say over how many GPUs the layers were spread: give -tp if it is more"
        assumed.append(Assumption(name="tensor_parallel_size", value=1, why=why))
    if "dtype" in values:
        values["dtype"] = DTYPE_ALIASES.get(str(values["dtype"]), values["dtype"])
    return checked(Deployment, values | {"engine": engine} | given)


def _model(facts: LogFacts, name: str | None, missing: list[str]) -> ModelSpec | None:
    if name is not None:
        return load_model(name)
    if facts.model_file is not None and existing(facts.model_file) is not None:
        return load_model(facts.model_file)
    said = facts.model or facts.model_file
    if said is None:
        missing.append("the log does not name the model: give --model")
        return None
    try:
        return load_model(said)
    except KvcalcError as error:
        missing.append(f"the log's model {said[:80]!r} cannot be read here ({error.message}): give --model")
        return None


def _stored(model: ModelSpec, deployment: Deployment, facts: LogFacts, assumed: list[Assumption]) -> ModelSpec:
    """Quantized while loading, if the log says so and the checkpoint is not."""
    method = facts.settings.get("quantization")
    if deployment.quantization is None and isinstance(method, str) and model.quantization is None:
        try:
            return stored_as(model, replace(deployment, quantization=method))
        except KvcalcError as error:
            why = f"the log says {method}, which could not be applied to {model.name} ({error.message})"
            assumed.append(Assumption(name="quantization", value=model.dtype, why=f"{why}: give the model as served"))
    return stored_as(model, deployment)


def _gpu(facts: LogFacts, name: str | None, missing: list[str]) -> GpuSpec | None:
    found = None
    if name is not None:
        found = load_gpu(name)
    elif facts.gpu is not None:
        try:
            found = load_gpu(facts.gpu.replace("_", " "))
        except KvcalcError:
            missing.append(f"the log's GPU {facts.gpu[:60]!r} is not in the catalogue: give {flag_of('gpu')}")
    else:
        missing.append(f"the log does not name the GPU: give {flag_of('gpu')} to compare the memory before the cache")
    if found is not None and facts.total_bytes:
        found = replace(found, usable_memory_bytes=facts.total_bytes)
    return found
