"""What an engine takes when a flag is not given: utilization, batch limits, model runner, sampler kind.

Source: EngineArgs.get_batch_defaults and use_v2_model_runner, as `memory.toml` has them by version
"""

from kvcalc.engines.memory.data import memory_constants, newer_than_read
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.memory.start import Runner, Sampler, Start
from kvcalc.specs.base import Assumption, Frozen
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import Version, parse_version, row_for, since
from kvcalc.units import GIB


class VllmSettings(Frozen):
    version: Version
    version_known: bool
    utilization: float
    batched_tokens: int  # T
    sequences: int  # S
    limits_known: bool
    runner: Runner
    sampler: Sampler
    assumptions: tuple[Assumption, ...]


def vllm_settings(start: Start) -> VllmSettings:
    """Resolve what the flags leave open, each as an assumption with its reason."""
    data, deployment, observed = memory_constants("vllm"), start.deployment, start.observed
    assumed: list[Assumption] = []
    text = deployment.engine_version
    if text is None:
        text = data["newest"]
        assumed.append(
            Assumption(name="engine_version", value=text, why="not given: the newest vLLM whose rule is known")
        )
    version = parse_version(text)
    assumed.extend(newer_than_read("vllm", version))

    utilization = deployment.gpu_memory_utilization
    if utilization is None:
        utilization = float(row_for(data["utilization"], version)["value"])
        assumed.append(Assumption(name="gpu_memory_utilization", value=utilization, why=f"the default of vLLM {text}"))
    runner = observed.runner
    if runner is None:
        runner = _runner(start.shape, start.gpu, version)
        assumed.append(Assumption(name="runner", value=runner, why=f"what vLLM {text} uses by default"))
    sampler: Sampler = observed.sampler or ("fused" if since(version, data["sampler"]["fused_since"]) else "native")
    tokens, sequences, known = _limits(start, version, runner, assumed)
    return VllmSettings(
        version=version,
        version_known=deployment.engine_version is not None,
        utilization=utilization,
        batched_tokens=tokens,
        sequences=min(sequences, tokens),
        limits_known=known,
        runner=runner,
        sampler=sampler,
        assumptions=tuple(assumed),
    )


def _runner(shape: ProfileShape, gpu: GpuSpec, version: Version) -> Runner:
    """V0 on cards that V1 did not take yet, else by version and kind of model."""
    data = memory_constants("vllm")
    older = data["older_cards"]
    if not since(version, older["until"]) and _below(gpu.compute_capability, older["below_capability"]):
        return "V0"
    row = row_for(data["runner"], version)
    found: Runner = row["other"] if shape.moe or shape.hybrid else row["dense"]
    return found


def _below(capability: str | None, least: float) -> bool:
    """NVIDIA's capabilities are numbers; other vendors' names are not judged."""
    try:
        return capability is not None and float(capability) < least
    except ValueError:
        return False


def _limits(start: Start, version: Version, runner: Runner, assumed: list[Assumption]) -> tuple[int, int, bool]:
    """max_num_batched_tokens and max_num_seqs, and whether both were given."""
    tokens, sequences = start.deployment.max_num_batched_tokens, start.deployment.max_num_seqs
    length = start.max_model_len or 2**20
    offline = start.deployment.offline or start.observed.offline
    use = "an offline LLM" if offline else "a server"
    if runner == "V0":
        default_tokens, default_sequences = (max(length, 2048) if length <= 32768 else 2048), 256
        where = "the V0 engine"
    else:
        row = _batch_row(start.gpu, version)
        default_tokens, default_sequences = int(row["offline" if offline else "server"]), int(row["seqs"])
        where = f"{use} on this GPU"
    known = tokens is not None and sequences is not None
    if sequences is None:
        sequences = default_sequences if tokens is None else min(default_sequences, tokens)
        assumed.append(Assumption(name="max_num_seqs", value=sequences, why=f"vLLM's default for {where}"))
    if tokens is None:
        tokens = default_tokens if runner == "V0" else min(default_tokens, sequences * length)
        assumed.append(Assumption(name="max_num_batched_tokens", value=tokens, why=f"vLLM's default for {where}"))
    return tokens, sequences, known


def _batch_row(gpu: GpuSpec, version: Version) -> dict[str, int]:
    for row in memory_constants("vllm")["batch"]:
        current = since(version, row["from"]) and ("until" not in row or not since(version, row["until"]))
        large = gpu.usable_memory_bytes >= row["min_memory"] * GIB
        named = any(word.lower() in gpu.title.lower() for word in row.get("not_title", []))
        if current and large and not named:
            found: dict[str, int] = row
            return found
    raise AssertionError("the last row holds for every GPU")
