"""Steps of one kind by name, so that a test reads as what it is about."""

from typing import Any

from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Operator, Step
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import ModelSpec


def decode_step(model: ModelSpec, layout: Layout | None = None, **given: Any) -> tuple[Operator, ...]:
    """`batch` sequences of `context` cached tokens, `tokens_per_sequence` rows each."""
    step = Step(decode=given["batch"], context=given["context"], rows_each=given.get("tokens_per_sequence", 1))
    return step_operators(model, layout or Layout(), step, given.get("cache_dtype", "bf16"))


def prefill_step(model: ModelSpec, **given: Any) -> tuple[Operator, ...]:
    """A prompt of `tokens` tokens after `start` cached ones."""
    return step_operators(model, Layout(), Step(**{"prompts": 1} | given), "bf16")


def mixed_step(model: ModelSpec, *, batch: int, **given: Any) -> tuple[Operator, ...]:
    """`batch` sequences that decode, and a chunk of a prompt beside them."""
    return step_operators(model, Layout(), Step(**{"prompts": 1, "decode": batch} | given), "bf16")
