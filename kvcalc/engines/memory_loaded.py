"""What an engine loads beyond the checkpoint's tensors."""

from kvcalc.specs.model import ModelSpec


def loaded_weight_extra(model: ModelSpec) -> int:
    """Bytes per GPU of the rotary cosine and sine table, whole on every rank and not cut by max_model_len.

    Formula: max_context * rope_dim * 2
    Unit: bytes
    Source: measured: Llama-4-Scout (10,485,760 positions) loads 53.12 GiB where its tensors are 50.40
    """
    return (model.max_context or 0) * model.rope_dim * 2
