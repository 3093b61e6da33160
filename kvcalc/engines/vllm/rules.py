"""What vLLM is like. Its flags are kvcalc's."""

from typing import ClassVar

from kvcalc.engines.contract import Rules
from kvcalc.engines.memory.data import version_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec, MoeMlp
from kvcalc.specs.versions import since

FETCHES_SINCE = "0.17"


class Vllm(Rules):
    TITLE = "vLLM"
    ROOM_FOR_LONGEST = True
    KEEPS_IN_FLIGHT = True
    SHARES_SEQUENCES = True
    ASKS_FOR_SHARE = True
    ADVISED = (
        *("kv_cache_dtype", "max_num_seqs", "enforce_eager", "gpu_memory_utilization"),
        *("quantization", "tensor_parallel_size"),
    )
    SWITCHES: ClassVar = {
        "watermark": "0.24",
        "prefill_schedule_interval": "0.24",
        "scheduling_policy": None,
        "long_prefill_token_threshold": None,
        "acceptance": None,
    }
    OWN = ("offline",)
    # docs/getting_started/installation/gpu.apple.inc.md and gpu.cuda.inc.md of vLLM 0.31
    BY_PLUGIN: ClassVar = {"Apple": "the vLLM-Metal plugin"}
    OLDEST_CUDA = "7.5"

    def copies_weights(self, version: str | None) -> bool:
        """Until kernels read them in place, with the V1 engine since 0.8.3 (pull request 15354).

        Source: maybe_offload_to_cpu in vllm/model_executor/models/utils.py; 0.8.2 falls back to V0 for the flag (issue
            15871, whose build of the next day, 0.8.3.dev172, runs V1)
        """
        return not since(version_of("vllm", version), "0.8.3")

    def captured(self, gpu: GpuSpec, deployment: Deployment) -> int | None:
        """As asked; by default (512 tokens) a larger step's kernels take longer than their launches.

        What is compiled but not captured is no quicker than eager: 35.2 ms against 33.9 (issue 45709).
        """
        asked = deployment.max_cudagraph_capture_size
        return None if asked is None else asked // (1 + deployment.num_speculative_tokens)

    def plans_ahead(self, version: str | None) -> bool:
        """Asynchronous scheduling is on by default since 0.14 (pull request 27614)."""
        return since(version_of("vllm", version), "0.14")

    def whole_prompt_fits(self, version: str | None) -> bool:
        """`scheduler_reserve_full_isl` came with pull request 37307; 0.19 resolves it to true."""
        return since(version_of("vllm", version), "0.19")

    def settled(self, model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
        """Replicas share the experts in any case: dealt whole with expert parallelism, else in slices.

        Raises KvcalcError for weights that are fetched ahead by a version that fetches none.

        Source: FusedMoEParallelConfig.make and flatten_tp_across_dp in vllm/model_executor/layers/fused_moe/config.py;
            the release notes of 0.17 ("Weight Offloading V2 with Prefetching", pull request 29941)
        """
        if deployment.offload_group_size and not since(version_of("vllm", deployment.engine_version), FETCHES_SINCE):
            raise KvcalcError(
                f"--offload-group-size came with vLLM {FETCHES_SINCE}, and {deployment.engine_version} is older",
                hint="use --cpu-offload-gb, or a newer --engine-version",
            )
        moe = any(isinstance(group.mlp, MoeMlp) for group in model.groups)
        sliced = moe and deployment.data_parallel_size > 1 and not deployment.enable_expert_parallel
        return replace(deployment, experts_over_replicas=True) if sliced else deployment

    def typed(self, deployment: Deployment) -> Deployment:
        """Without what is settled."""
        return replace(deployment, experts_over_replicas=False)


RULES = Vllm()
