"""The cache's type: packed fp8 by itself for compressed attention, and for sparse latents in some versions.

Source: `engines/pages/dtypes.py`; fp8_ds_mla: DeepseekV32ForCausalLM.verify_and_update_config in
vllm/model_executor/models/config.py, and the versions that `planning.py` names
"""

from kvcalc.engines.pages.dtypes import engine_dtype, torch_cache_dtype
from kvcalc.engines.vllm import hybrid
from kvcalc.engines.vllm.planning import planning_of
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import CompressedAttention, LatentAttention, ModelSpec, Recurrent


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """What was asked, else what the checkpoint says of its cache, else the model's own; `auto` is packed fp8 for
    compressed attention, and was for sparse latents.

    Raises KvcalcError for a type that vLLM does not keep.
    """
    mixers = [mixer for group in model.groups for mixer in group.mixers]
    sparse = any(isinstance(mixer, LatentAttention) and mixer.indexer for mixer in mixers)
    compressed = any(isinstance(mixer, CompressedAttention) for mixer in mixers)
    fp8 = compressed or (sparse and planning_of(deployment.engine_version).sparse_latent_is_fp8)
    return "fp8_ds_mla" if fp8 and deployment.kv_cache_dtype == "auto" else torch_cache_dtype(model, deployment)


def state_dtype(mixer: Recurrent, model: ModelSpec, deployment: Deployment) -> str:
    """The flag, else what the config says, else float32 or the model's own, by family."""
    return hybrid.state_dtype(mixer, model, deployment, engine_dtype(model, deployment))
