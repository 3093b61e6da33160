"""What llama.cpp is like, and its own flags."""

import re
from typing import ClassVar

from kvcalc.engines.contract import Rules
from kvcalc.engines.llamacpp.asked import slot_cells, slots_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

_BUILD = re.compile(r"(b?\d{1,9}|20\d\d-\d\d(-\d\d)?)\Z", re.IGNORECASE)  # it counts its builds; a date will do


class LlamaCpp(Rules):
    TITLE = "llama.cpp"
    FAILS_WHEN_FULL = True  # "Context size has been exceeded" (tools/server/server-context.cpp)
    BATCHES_OF = 2048  # n_batch (common/common.h), computed in micro-batches of n_ubatch
    STARTS_BEYOND = True
    LOWERS_LENGTH = True
    OFFLOADS = True
    TAKES_WHAT_IS_ASKED = True
    WEIGHTS_AS_IN_FILE = True
    OUTSIDE, PEAK = "driver and runtime", "compute buffer"
    QUANTIZATIONS = ("gguf",)
    MEASURED_VENDORS = ()
    SMALLER_CACHES = ("q8_0", "q4_0")
    ADVISED = ("kv_cache_dtype", "quantization", "pipeline_parallel_size")
    FLAGS: ClassVar = {"--max-model-len": "-c", "--max-num-seqs": "-np", "--kv-cache-dtype q8_0": "-ctk q8_0 -ctv q8_0"}
    SWITCHES: ClassVar = {"acceptance": None}
    OWN = ("ctx_size", "parallel")
    NOT_ON = ("AWS", "Google")  # ggml has no backend for them

    def check_version(self, text: str) -> None:
        """Raise KvcalcError where this is neither a build's number nor a date."""
        if not _BUILD.match(text.strip()):
            raise KvcalcError(
                f"llama.cpp build {text[:40]!r} is not a build",
                hint="write its number, as b5500, or a date, as 2025-03",
            )

    def settled(self, model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
        """A slot's cells are the longest sequence, and the slots are the sequences.

        Raises KvcalcError for vLLM's way to leave weights with the host.
        """
        if deployment.cpu_offload_bytes or deployment.offload_group_size:
            flag = "--cpu-offload-gb" if deployment.cpu_offload_bytes else "--offload-group-size"
            raise KvcalcError(
                f"{flag} is vLLM's: llama.cpp leaves whole layers to the CPU, which computes them there",
                hint="-ngl N keeps N layers on the GPU; --n-cpu-moe N leaves the experts of N layers to the CPU",
            )
        if deployment.ctx_size is None:
            return replace(deployment, max_num_seqs=deployment.max_num_seqs or deployment.parallel)
        longest = [slot_cells(deployment), deployment.max_model_len, model.max_context]
        return replace(
            deployment,
            max_model_len=min(length for length in longest if length is not None),
            max_num_seqs=deployment.max_num_seqs or slots_of(deployment),
        )

    def typed(self, deployment: Deployment) -> Deployment:
        """Without what the slots settle."""
        asked = deployment.ctx_size is not None
        slots, cells = (slots_of(deployment), slot_cells(deployment)) if asked else (deployment.parallel, None)
        return replace(
            deployment,
            max_model_len=None if deployment.max_model_len == cells else deployment.max_model_len,
            max_num_seqs=None if deployment.max_num_seqs == slots else deployment.max_num_seqs,
        )


RULES = LlamaCpp()
