"""vLLM's profile run: the peak of three phases that follow each other, so the largest counts.

Source: profile_run of vllm/v1/worker/gpu_model_runner.py for the three phases; how much each holds was measured on 88
starts of 57 models, vLLM 0.6 to 0.27, and stands in `memory.toml`
"""

from kvcalc.engines.memory.budget import Activation, ByteRange
from kvcalc.engines.memory.data import memory_constants
from kvcalc.engines.memory.shape import Encoder, ProfileShape
from kvcalc.engines.memory.start import Start
from kvcalc.engines.vllm.settings import VllmSettings
from kvcalc.engines.vllm.workspace import index_logits_bytes, reserved_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import row_for, since
from kvcalc.units import GIB


def activation_peak(start: Start, settings: VllmSettings) -> Activation:
    """The largest of the sampler's, the forward pass's and the encoder's needs.

    SAMPLER = k * S * V * 4 + T * (h * b + c) + W + M
    FORWARD = T * b * (g * I / tp + 3.25 * h) + T * c + W + M + X
    ENCODER = P * b * (g * I_v + 5 * h_v) + E * h * b, with P = 4 * E patches of E embeddings

    T tokens of the profiled batch, S sequences, V vocabulary, h hidden width, I MLP width, b bytes of an element, g 3
    for a gated MLP and 2 without; the others are in memory.toml. The logits are gathered on every rank, so the
    sampler's part does not shrink with tensor parallelism.
    """
    data, shape, deployment = memory_constants("vllm")["activation"], start.shape, start.deployment
    last_stage = not (start.observed.inner_stage and deployment.pipeline_parallel_size > 1)
    tokens, b, h = settings.batched_tokens, shape.element_bytes, shape.hidden
    tp = deployment.tensor_parallel_size
    images = (shape.images or shape.encoder is not None) if start.observed.images is None else start.observed.images
    c = data["v1_bytes_per_token"] if settings.runner == "V1" else 0
    held = tokens * c + (data["images"] * GIB if images else 0)
    kept, passing = _expert_workspace(shape, deployment, settings)
    kept = max(0.0, kept - reserved_bytes(start, settings))  # one workspace serves both

    low, value, high = _sampler_copies(shape, settings)
    logits = settings.sequences * shape.padded_vocab * 4
    beside = tokens * h * b + held + kept
    hand_over = 2 * tokens * h * b if deployment.pipeline_parallel_size > 1 else 0
    per_width = data["gated_width"] if shape.gated else data["plain_width"]
    dense = per_width * shape.dense_width / tp
    sparse = per_width * shape.shared_width / tp
    widest = max(tokens * b * dense, tokens * b * sparse + passing)
    widest += index_logits_bytes(start, settings)
    forward = widest + tokens * b * data["forward_hidden"] * h + held + kept + hand_over
    encoder = _encoder_pass(shape.encoder, tokens, h, b) if shape.encoder and images else 0.0

    def peak(copies: float) -> float:
        return float(max(copies * logits + beside if last_stage else 0, forward, encoder))

    above = data["above_other"] if shape.moe or images or not _like_the_evidence(start.gpu) else data["above"]
    below = data["below_images"] if images else data["below"]
    if since(settings.version, "0.27"):
        above, below = data["above_untested"], data["below_untested"]
    return Activation(
        sampler=int(value * logits + beside) if last_stage else 0,
        forward=int(forward),
        encoder=int(encoder),
        peak=ByteRange(
            low=max(0, int(peak(low) - below * GIB)),
            value=int(peak(value)),
            high=int(peak(high) + above * GIB),
        ),
    )


def _encoder_pass(encoder: Encoder, tokens: int, hidden: int, element_bytes: int) -> float:
    """The tower at its largest input: four patches make one embedding."""
    data = memory_constants("vllm")["activation"]
    items = max(tokens, encoder.largest_item_tokens)
    per_width = data["gated_width"] if encoder.gated else data["plain_width"]
    per_patch = per_width * encoder.width + data["encoder_hidden"] * encoder.hidden
    return float(items * element_bytes * (4 * per_patch + hidden))


def _sampler_copies(shape: ProfileShape, settings: VllmSettings) -> tuple[float, float, float]:
    """k: how many float32 copies of the logits live at once (low, central, high)."""
    data = memory_constants("vllm")["sampler"]
    if settings.runner == "V2":
        key = "v2" if since(settings.version, data["v2_since"]) else "v2_first"
    else:
        key = settings.sampler
    row = data[key]
    extra = data["float32"] if shape.element_bytes == 4 else 0
    high = row["high"] if settings.version_known else max(row["high"], data["native"]["high"])
    return row["low"] + extra, row["value"] + extra, high + extra


def _expert_workspace(shape: ProfileShape, deployment: Deployment, settings: VllmSettings) -> tuple[float, float]:
    """What the experts' kernels keep (W), or else hold while they run (X)."""
    if not shape.moe:
        return 0.0, 0.0
    width, hidden = shape.expert_width / deployment.expert_slices, shape.hidden
    tokens = _gathered_tokens(deployment, settings)
    rows = tokens * shape.top_k * shape.element_bytes
    gathered = (tokens - settings.batched_tokens) * hidden * shape.element_bytes
    if not shape.quantized and settings.runner == "V1" and since(settings.version, "0.17"):
        return rows * (max(width, hidden) + max(2 * width, hidden)) + gathered, 0.0
    return 0.0, rows * (3 * width + hidden) + gathered


def _gathered_tokens(deployment: Deployment, settings: VllmSettings) -> int:
    """Tokens that pass through one rank's experts: those of all replicas that share them, in chunks."""
    tokens = settings.batched_tokens * deployment.data_parallel_size
    chunk = int(row_for(memory_constants("vllm")["experts_chunk"], settings.version)["value"])
    return max(settings.batched_tokens, min(tokens, chunk) if chunk else tokens)


def _like_the_evidence(gpu: GpuSpec) -> bool:
    """The rule was found on Hopper."""
    return gpu.architecture.lower() == "hopper"
