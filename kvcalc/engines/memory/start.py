"""What a budget is worked out from: dimensions, a GPU, a deployment, and what only a log can say."""

from typing import Literal, NamedTuple

from kvcalc.engines.memory.budget import NOTHING, ByteRange
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec

Runner = Literal["V0", "V1", "V2"]  # vLLM's generations
Sampler = Literal["native", "fused"]  # top-k/top-p in PyTorch, or in one Triton or FlashInfer kernel


class Observed(Frozen):
    """What a start-up log says and no flag does."""

    runner: Runner | None = None
    sampler: Sampler | None = None
    offline: bool = False  # the `LLM` class, not a server
    images: bool | None = None  # False: the modality limits are 0
    inner_stage: bool = False  # the lines are of a pipeline stage before the last: no head, no sampler


NOT_OBSERVED = Observed()


class Start(NamedTuple):
    """A start of an engine on one GPU, the fullest rank's."""

    shape: ProfileShape
    gpu: GpuSpec
    deployment: Deployment
    weights_bytes: int  # on the GPU, offloaded ones left out
    lora: ByteRange = NOTHING
    max_model_len: int | None = None
    observed: Observed = NOT_OBSERVED
    asked_cache_bytes: int | None = None  # the flags ask for this cache, whatever is free
