"""How many prompt tokens and sequences SGLang takes at once, by the size of the card.

Source: server_args.py of the versions that `memory.toml` names
"""

from kvcalc.engines.memory.data import memory_constants
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import Version, since
from kvcalc.units import GIB


def batch_defaults(gpu: GpuSpec, deployment: Deployment, version: Version) -> tuple[int, int]:
    """chunked_prefill_size and the largest batch that is captured as a graph.

    Unit: tokens; sequences
    """
    for row in memory_constants("sglang")["batch"]:
        if gpu.usable_memory_bytes < row["below"] * GIB and not ("until" in row and since(version, row["until"])):
            wide = deployment.tensor_parallel_size >= 4
            most = deployment.max_cudagraph_capture_size or int(row["wide" if wide else "captured"])
            captured = 0 if deployment.enforce_eager else most
            return deployment.max_num_batched_tokens or int(row["prefill"]), captured
    raise AssertionError("the last row holds for every GPU")
