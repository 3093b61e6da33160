"""Layers with a state beside layers with a cache: both draw blocks from one pool, so their pages must be one size.

The attention block grows until its page covers the state, and the state's page is padded to it
(vllm/platforms/interface.py, `_align_hybrid_block_size`).

Source: MambaStateShapeCalculator and MambaStateDtypeCalculator in vllm/model_executor/layers/mamba/mamba_utils.py
"""

from collections.abc import Iterable
from math import ceil

from kvcalc.counting.cache import element_bytes
from kvcalc.engines.vllm.pages import Page, token_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import LatentAttention, Mixer, ModelSpec, Recurrent

KERNEL_BLOCK = 16  # attention kernels take blocks of a multiple of this
LATENT_KERNEL_BLOCK = 128  # so that 128 / kernel block divides the kernel blocks of one manager block
# Families whose class in vLLM asks for float32 where the config is silent
# (model_executor/models/config.py, NemotronHForCausalLMConfig; layers/mamba/mamba_utils.py, kda_state_dtype).
FP32_MODELS = ("nemotron_h",)
FP32_MIXERS = ("kda",)


def state_dtype(mixer: Recurrent, model: ModelSpec, deployment: Deployment, model_dtype: str) -> str:
    """The flag, else what the config says, else float32 or the model's own, by family."""
    if deployment.mamba_ssm_cache_dtype != "auto":
        return deployment.mamba_ssm_cache_dtype
    said = mixer.state_dtype or model.state_dtype
    if said is not None:
        return said
    fp32 = mixer.family in FP32_MIXERS or model.family.lower().startswith(FP32_MODELS)
    return "fp32" if fp32 else model_dtype


def local_state_bytes(mixer: Recurrent, model: ModelSpec, deployment: Deployment, model_dtype: str) -> int:
    """One layer's state on one rank.

    K − 1 convolution columns, and one more for each drafted token, in the model's dtype; the recurrent part in its own.
    Groups of B and C that tensor parallelism does not divide are repeated until it does.

    Unit: bytes
    """
    tp = deployment.tensor_parallel_size
    columns = mixer.conv_kernel - 1 + deployment.num_speculative_tokens if mixer.conv_kernel else 0
    channels = mixer.declared_conv_channels or mixer.conv_channels
    if mixer.groups % tp:
        channels += (tp - mixer.groups) * mixer.group_channels
    conv = channels // tp * columns * element_bytes(model_dtype)
    recurrent = mixer.state_elements // tp * element_bytes(state_dtype(mixer, model, deployment, model_dtype))
    return ceil(conv + recurrent)


def aligned_block(block_size: int, state: int, attention: float, has_latent: bool) -> int:
    """Tokens of the attention block whose page covers `state` bytes.

    Formula: max(block_size, align * ceil(state / (align * attention)))
    Unit: tokens
    Source: vllm/platforms/interface.py, 0.33
    """
    align = max(KERNEL_BLOCK, block_size, LATENT_KERNEL_BLOCK if has_latent else 0)
    return max(block_size, align * ceil(state / (align * attention)))


def block_of(mixers: Iterable[Mixer], block_size: int, state: int, cache_dtype: str, tp: int) -> int:
    """The block size of the whole model: `block_size` where nothing has a state.

    Unit: tokens
    """
    every = list(mixers)
    attention = max((token_bytes(mixer, cache_dtype, tp) for mixer in every), default=0)
    if not state or not attention:
        return block_size
    return aligned_block(block_size, state, attention, any(isinstance(mixer, LatentAttention) for mixer in every))


def state_page(state: int) -> Page:
    """A state's page; groups pad it to the attention's."""
    return Page(kind="state", page_bytes=state, shape=(state,))
