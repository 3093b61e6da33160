"""Room for LoRA adapters: vLLM allocates every slot at the largest rank when it loads the model."""

from kvcalc.engines.memory.budget import NOTHING, ByteRange
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES, ELEMENT_BITS
from kvcalc.specs.model import Attention, LayerGroup, ModelSpec, Tensor


def adapter_bytes(model: ModelSpec, deployment: Deployment) -> ByteRange:
    """Bytes per GPU of `max_loras` slots of `max_lora_rank`, beside every linear layer of the text model.

    A matrix of (outputs, inputs) gets A of (rank, inputs) and B of (outputs, rank) in each slot. Tensor parallelism
    divides the side that the matrix itself divides; the other side is whole on every rank. `low` leaves out the
    embedding and the head: some model classes adapt them, some do not.

    Formula: sum of (inputs + outputs) * max_loras * max_lora_rank * bytes of an element
    Unit: bytes per GPU
    Source: create_lora_weights in vllm/lora/layers/ (vLLM 0.33.0).
    """
    slots = deployment.max_loras
    if not slots:
        return NOTHING
    dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
    per_row = slots * deployment.max_lora_rank * ELEMENT_BITS[DTYPE_ALIASES.get(dtype, dtype)] // 8
    layers = sum(
        group.count * sum(_sides(tensor, group, deployment) for tensor in group.tensors) for group in model.groups
    )
    layers = -(-layers // deployment.pipeline_parallel_size)
    matrices = [tensor for tensor in model.tensors if tensor.category in ("embedding", "head")]
    vocabulary = sum(sum(tensor.shape) for tensor in matrices)
    if deployment.pipeline_parallel_size > 1:
        vocabulary = max((sum(tensor.shape) for tensor in matrices), default=0)
    whole = (layers + vocabulary) * per_row
    return ByteRange(low=layers * per_row, value=whole, high=whole)


def _sides(tensor: Tensor, group: LayerGroup, deployment: Deployment) -> int:
    """Inputs of A plus outputs of B on one rank, all copies together."""
    if not tensor.matmul or len(tensor.shape) != 2:
        return 0
    outputs, inputs = tensor.shape
    tp, copies = deployment.tensor_parallel_size, tensor.copies
    if tensor.category == "experts" and deployment.enable_expert_parallel:
        return -(-copies // (tp * deployment.data_parallel_size)) * (inputs + outputs)
    if tensor.split == "columns":
        outputs = -(-outputs // tp)
    elif tensor.split == "kv":
        heads = max((mixer.kv_heads for mixer in group.mixers if isinstance(mixer, Attention)), default=tp)
        outputs = -(-outputs // min(tp, heads))
    elif tensor.split == "rows":
        inputs = -(-inputs // tp)
    return copies * (inputs + outputs)
