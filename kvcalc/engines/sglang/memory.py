"""SGLang: a fraction of free memory is static, the rest is kept back; there is no profile run.

    pool = free_after_load - free_before_load * (1 - mem_fraction_static)
         = free_before_load * mem_fraction_static - weights

The pool holds keys, values and recurrent state. Activations, graphs and logits live in what is kept back.

Source: server_args.py of SGLang 0.4.3 to 0.5.12 and arg_groups/memory_hook.py of 0.5.23, as `memory.toml` has them
"""

from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.engines.memory.data import gib_range, memory_constants, newer_than_read
from kvcalc.engines.memory.links import interconnect
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.memory.start import Start
from kvcalc.engines.sglang.batches import batch_defaults
from kvcalc.engines.sglang.rules import RULES
from kvcalc.specs.base import Assumption
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import Version, parse_version, since
from kvcalc.units import GIB, MIB


def budget(start: Start) -> MemoryBudget:
    """The budget of one rank; `gpu_memory_utilization` stands for `--mem-fraction-static`."""
    data, gpu, deployment = memory_constants("sglang"), start.gpu, start.deployment
    weights = start.weights_bytes + start.lora.value
    text = deployment.engine_version or data["newest"]
    version = parse_version(text)
    assumed: list[Assumption] = list(newer_than_read("sglang", version))
    if deployment.engine_version is None:
        assumed.append(Assumption(name="engine_version", value=text, why="not given: the newest SGLang that was read"))
    fraction = deployment.gpu_memory_utilization
    if fraction is None:
        fraction = static_fraction(start.shape, gpu, deployment, version)
        assumed.append(Assumption(name="mem_fraction_static", value=fraction, why=f"SGLang {text}'s rule for this GPU"))
    ranks = _ranks(deployment)
    before = gib_range(data["initial_use"]["one" if ranks == 1 else interconnect(gpu)])
    free = gpu.usable_memory_bytes - before.value
    reserve = free - int(free * fraction)
    left = free - weights - reserve
    slack = int((before.high - before.low) * fraction / 2)
    table = RULES.request_table(deployment, start.max_model_len)
    warnings: tuple[str, ...] = ()
    if table > reserve:
        warnings = (
            "the table from requests to cached tokens is larger than what the fraction keeps back: "
            "lower --max-model-len or --max-num-seqs",
        )
    return MemoryBudget(
        engine="sglang",
        engine_version=text,
        total=gpu.usable_memory_bytes,
        requested=free,
        weights=weights,
        reserve=ByteRange.exactly(reserve),
        request_table=table,
        initial_use=before,
        pool=ByteRange(low=left - slack - int(data["left_by_loading"] * GIB), value=left, high=left + slack),
        assumptions=tuple(assumed),
        warnings=warnings,
    )


def static_fraction(shape: ProfileShape, gpu: GpuSpec, deployment: Deployment, version: Version) -> float:
    """The default of `--mem-fraction-static`: what activations and graphs are guessed to need, kept back.

    Unit: 1
    """
    data = memory_constants("sglang")
    total = gpu.usable_memory_bytes / MIB
    ranks = _ranks(deployment)
    if not since(version, data["classes_since"]):
        for at_least, fraction in data["fraction_until_classes"]:
            if deployment.tensor_parallel_size >= at_least:
                return float(fraction)
    if not since(version, data["formula_since"]):
        row = next(row for row in data["class"] if gpu.usable_memory_bytes < row["below"] * GIB)
        kept = (row["reserve"] + row["per_gpu"] * (ranks if row["per_gpu"] else 0)) * 1024
        kept += data["draft"][0][1] if deployment.num_speculative_tokens else 0
        fraction = round(float((total - kept) / total), 3)
        return fraction * float(data["images_before_formula"]) if shape.images else fraction
    prefill, captured = batch_defaults(gpu, deployment, version)
    kept = data["constant"] + data["per_prefill_token"] * max(prefill, data["least_prefill_tokens"])
    kept += data["per_captured_batch"] * captured + data["per_eight_gpus"] * ranks / 8
    if since(version, data["prefill_graphs_since"]):
        sizes = len(prefill_sizes(prefill))
        kept += data["latent_prefill_graphs"] if shape.latent else data["per_prefill_graph"] * sizes
    if total > data["floor_above"]:
        kept = max(kept, data["floor"])
    if deployment.num_speculative_tokens:
        kept += [mib for first, mib in data["draft"] if since(version, first)][-1]
    fraction = round(float((total - kept) / total), 3)
    return fraction * _image_factor(shape)


def _ranks(deployment: Deployment) -> int:
    """GPUs of one server: replicas of attention are inside it."""
    inside = deployment.data_parallel_size if deployment.enable_dp_attention else 1
    return deployment.tensor_parallel_size * deployment.pipeline_parallel_size * inside


def prefill_sizes(largest: int) -> list[int]:
    """Prompt lengths in tokens that are captured as graphs, up to the largest.

    >>> [len(prefill_sizes(largest)) for largest in (2048, 4096, 8192, 16384)]
    [42, 50, 58, 74]

    Unit: tokens
    Source: _generate_prefill_cuda_graph_batch_sizes in sglang/srt/server_args.py (0.5.23)
    """
    steps = [(4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256), (4608, largest, 512)]
    return [size for low, high, step in steps for size in range(low, high + 1, step) if size <= largest]


def _image_factor(shape: ProfileShape) -> float:
    """A larger vision tower keeps more back, measured against ViT-L/14."""
    if not shape.images:
        return 1.0
    data = memory_constants("sglang")
    plain = data["images_layers"] * data["images_hidden"] ** 2
    layers, hidden = shape.tower_layers or data["images_layers"], shape.tower_hidden or data["images_hidden"]
    factor = 1 - data["images_slope"] * (layers * hidden**2 / plain - 1)
    return float(data["images_base"] * max(data["images_least"], min(data["images_most"], factor)))
