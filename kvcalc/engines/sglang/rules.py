"""What SGLang is like, and its own flags."""

from typing import ClassVar

from kvcalc.engines.contract import Rules
from kvcalc.engines.memory.data import memory_constants, version_of
from kvcalc.engines.sglang.batches import batch_defaults
from kvcalc.engines.sglang.settled import with_attention_replicas, with_sparse_cache, without_attention_replicas
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.versions import since
from kvcalc.units import GB, GIB


class SgLang(Rules):
    TITLE = "SGLang"
    LEFT_BY_LOADING_BYTES = GIB  # Qwen3.5-27B, bf16: 51.86 GiB for tensors of 50.99
    # docs.sglang.io/advanced_features/hyperparameter_tuning.html: 5 to 8 GB free beside the graphs, of 2 GB, are enough
    KEEPS_BACK_BYTES = 10 * GB
    ADVISED = ("kv_cache_dtype", "gpu_memory_utilization", "quantization", "tensor_parallel_size")
    FLAGS: ClassVar = {
        "--tensor-parallel-size": "--tp-size",
        "--max-model-len": "--context-length",
        "--max-num-seqs": "--max-running-requests",
        "--max-cudagraph-capture-size": "--cuda-graph-max-bs",
        "--gpu-memory-utilization": "--mem-fraction-static",
        "--kv-cache-dtype fp8": "--kv-cache-dtype fp8_e4m3",
    }
    SWITCHES: ClassVar = {"scheduling_policy": None, "acceptance": None}
    OWN = ("max_mamba_cache_size", "enable_dp_attention")
    NOT_ON = ("AWS",)  # docs.sglang.io, hardware platforms
    BY_PLUGIN: ClassVar = {"Apple": "its Metal backend, built from source"}
    OLDEST_CUDA = "7.5"  # FlashInfer's

    def copies_weights(self, version: str | None) -> bool:
        """OffloaderV1 in sglang/srt/utils/offloader.py calls each layer with copies of its weights."""
        return True

    def captured(self, gpu: GpuSpec, deployment: Deployment) -> int | None:
        """cuda_graph_max_bs, by default by the size of the card: 24 or 48 sequences on 24 GB.

        Source: can_run in sglang/srt/model_executor/cuda_graph_runner.py
        """
        return batch_defaults(gpu, deployment, version_of("sglang", deployment.engine_version))[1]

    def plans_ahead(self, version: str | None) -> bool:
        """The overlap schedule is the default since 0.4."""
        return since(version_of("sglang", version), "0.4")

    def request_table(self, deployment: Deployment, max_model_len: int | None) -> int:
        """Bytes of req_to_token: a row of 32-bit slots for every request that may run.

        Llama-4-Scout at its full 10,485,760 positions: 2,049 rows, 80.04 GiB.

        Formula: 4 * (max_running_requests + 1) * max_model_len
        Unit: bytes per GPU
        Source: ReqToTokenPool in sglang/srt/mem_cache/memory_pool.py
        """
        rows = (deployment.max_num_seqs or int(memory_constants("sglang")["running_requests"])) + 1
        return 4 * rows * (max_model_len or 0)

    def settled(self, model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
        """Replicas of attention, the cache's type of sparse latents; `--cpu-offload-gb` fetches no layers ahead.

        Source: create_offloader in sglang/srt/utils/offloader.py, which asks for it first
        """
        if deployment.cpu_offload_bytes:
            deployment = replace(deployment, offload_group_size=0)
        return with_sparse_cache(model, gpu, with_attention_replicas(deployment))

    def typed(self, deployment: Deployment) -> Deployment:
        """All GPUs of the replicas of attention, and what they do together."""
        return without_attention_replicas(deployment)


RULES = SgLang()
