"""How tensor parallelism divides a tensor: of which side each rank has a part, and how many parts there are."""

from typing import Literal, NamedTuple

from kvcalc.counting.rounding import VOCAB_MULTIPLE
from kvcalc.specs.model import Tensor


class Cut(NamedTuple):
    """One tensor's division; a `side` of None is whole on every rank."""

    side: Literal["outputs", "inputs"] | None
    parts: int
    multiple: int = 1  # elements; what the side is padded to before it is divided


def cut(tensor: Tensor, ranks: int, kv_heads: int = 1) -> Cut:
    """The division over so many ranks; keys and values have no more parts than heads, and are copied beyond.

    Source: vllm/model_executor/layers/linear.py (ColumnParallelLinear, RowParallelLinear, QKVParallelLinear) and
    vocab_parallel_embedding.py (VocabParallelEmbedding)

    >>> from kvcalc.specs.formats import BF16
    >>> keys = Tensor(name="k_proj.weight", shape=(1024, 4096), category="attention", split="kv", format=BF16)
    >>> cut(keys, 16, kv_heads=8)
    Cut(side='outputs', parts=8, multiple=1)
    """
    match tensor.split:
        case "columns":
            return Cut("outputs", ranks)
        case "kv":
            return Cut("outputs", min(ranks, kv_heads))
        case "rows":
            return Cut("inputs", ranks)
        case "vocab":
            return Cut("outputs", ranks, VOCAB_MULTIPLE)
    return Cut(None, 1)
