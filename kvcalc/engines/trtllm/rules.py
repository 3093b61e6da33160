"""What TensorRT-LLM is like, and its own flags."""

from typing import ClassVar

from kvcalc.engines.contract import Rules
from kvcalc.engines.memory.data import memory_constants, version_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.versions import since


class TensorRtLlm(Rules):
    TITLE = "TensorRT-LLM"
    NEVER_EVICTS = True
    RESERVES_STATES = True
    SWITCHES: ClassVar = {"acceptance": None}
    SPLITS_PROMPTS = False  # but with `enable_chunked_prefill`
    NOT_ON = ("AMD", "Apple", "AWS", "Google", "Intel")
    OLDEST_CUDA = "8.0"  # docs/source/reference/support-matrix.md of 0.18.2: Ampere, Ada Lovelace, Hopper
    OWN = ("enable_chunked_prefill",)
    FLAGS: ClassVar = {
        "--tensor-parallel-size": "--tp_size",
        "--max-model-len": "--max_seq_len",
        "--max-num-seqs": "--max_batch_size",
        "--gpu-memory-utilization": "--kv_cache_free_gpu_memory_fraction",
    }

    def settled(self, model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
        """As it is. Raises KvcalcError for weights with the host: it keeps all of them on the GPU."""
        if deployment.cpu_offload_bytes or deployment.offload_group_size:
            flag = "--cpu-offload-gb" if deployment.cpu_offload_bytes else "--offload-group-size"
            raise KvcalcError(
                f"{flag} is vLLM's and SGLang's: TensorRT-LLM keeps all weights on the GPU",
                hint="leave it away, or ask for --engine vllm",
            )
        return deployment

    def plans_ahead(self, version: str | None) -> bool:
        """The overlap scheduler of the PyTorch backend, the default since 1.0."""
        return since(version_of("trtllm", version), "1.0")

    def room_for(self, prompt: int, deployment: Deployment) -> int | None:
        """max_num_tokens that hold so long a prompt whole beside max_batch_size sequences; None: the default does.

        Published commands give it the longest prompt, the clients and 64 tokens, in whole 64s.

        Unit: tokens
        Source: `_check_arguments` (a longer prompt is refused) in NVIDIA/TensorRT-LLM, tensorrt_llm/llmapi/llm.py;
            MicroBatchScheduler (one without room waits) in cpp/tensorrt_llm/batch_manager/microBatchScheduler.cpp;
            MAX_NUM_TOKENS in the TensorRT-LLM scripts of SemiAnalysisAI/InferenceX, benchmarks/
        """
        data = memory_constants("trtllm")
        wanted = prompt + (deployment.max_num_seqs or int(data["sequences"]))
        return None if wanted <= data["batched_tokens"] else -(-wanted // TOKENS) * TOKENS


TOKENS = 64  # of which max_num_tokens is a multiple in published commands

RULES = TensorRtLlm()
