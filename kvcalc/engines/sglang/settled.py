"""What SGLang settles by model and GPU before it starts."""

from kvcalc.engines.memory.data import version_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import LatentAttention, ModelSpec
from kvcalc.specs.versions import since

RAW_SINCE = "0.5.10"
BLACKWELL = 10  # compute capability of its first GPUs


def with_attention_replicas(deployment: Deployment) -> Deployment:
    """`--enable-dp-attention`: the replicas take their GPUs from --tensor-parallel-size and share the experts.

    Requests, state slots and tokens of a step are given for all replicas together.

    Raises KvcalcError where the GPUs do not divide.

    Source: dp_size and attn_tp_size in sglang/srt/server_args.py and layers/dp_attention.py; max_running_requests //
    attn_dp_size in mem_cache/kv_cache_configurator.py (0.5.23)
    """
    dp, tp = deployment.data_parallel_size, deployment.tensor_parallel_size
    if not deployment.enable_dp_attention or dp == 1 or deployment.attention_settled:
        return deployment
    if tp % dp:
        raise KvcalcError(
            f"{tp} GPUs do not divide into {dp} replicas of attention",
            hint="with --enable-dp-attention, -dp divides -tp",
        )

    def each(number: int | None) -> int | None:
        return None if number is None else max(1, number // dp)

    return replace(
        deployment,
        tensor_parallel_size=tp // dp,
        enable_expert_parallel=True,
        max_num_seqs=each(deployment.max_num_seqs),
        max_num_batched_tokens=each(deployment.max_num_batched_tokens),
        max_mamba_cache_size=each(deployment.max_mamba_cache_size),
        attention_settled=True,
    )


def without_attention_replicas(deployment: Deployment) -> Deployment:
    """The same as it is typed: `with_attention_replicas` undone.

    Source: the inverse of `with_attention_replicas`
    """
    dp = deployment.data_parallel_size
    if not deployment.attention_settled:
        return deployment

    def together(number: int | None) -> int | None:
        return None if number is None else number * dp

    return replace(
        deployment,
        tensor_parallel_size=deployment.tensor_parallel_size * dp,
        max_num_seqs=together(deployment.max_num_seqs),
        max_num_batched_tokens=together(deployment.max_num_batched_tokens),
        max_mamba_cache_size=together(deployment.max_mamba_cache_size),
        attention_settled=False,
    )


def with_sparse_cache(model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
    """Sparse latents: fp8 by itself from Blackwell on, in raw rows; on Hopper fp8 is packed with its scales.

    TRT-LLM's kernels (Blackwell) and those of ROCm read rows of rank + rope; FlashMLA's (Hopper) have scales and a
    16-bit rotary part.

    Source: _dsa_kv_cache_dtype_default and _dsa_split_backend_resolution in sglang/srt/arg_groups/overrides.py,
    calculate_mla_kv_cache_dim in mem_cache/kv_cache_configurator.py (0.5.15 to 0.5.23); server_args.py (0.5.10)
    """
    sparse = any(isinstance(m, LatentAttention) and m.indexer for group in model.groups for m in group.mixers)
    version = version_of("sglang", deployment.engine_version)
    if not sparse or gpu is None or not since(version, RAW_SINCE):
        return deployment
    nvidia = gpu.vendor.upper() == "NVIDIA"
    major = int((gpu.compute_capability or "0").partition(".")[0]) if nvidia else 0
    asked = deployment.kv_cache_dtype
    if asked == "auto" and major:
        asked = "fp8" if major >= BLACKWELL else "bf16"
    raw = (major >= BLACKWELL or not nvidia) and asked != "fp8_ds_mla"
    return replace(deployment, kv_cache_dtype=asked, raw_latents=raw)
