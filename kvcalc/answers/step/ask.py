"""From what the user typed to one step: the same for a command line and for Python."""

from collections.abc import Mapping
from typing import Any

from kvcalc.answers.question import ask
from kvcalc.answers.step.answer import step
from kvcalc.results.step import StepReport


def step_from(model: str, flags: Mapping[str, Any], explain: bool = False) -> StepReport:
    """A decode step; with `tokens_per_step` among the flags, a step of a model that keeps no cache."""
    left = dict(flags)
    tokens_per_step = left.pop("tokens_per_step", None)
    question = ask(model, left)
    if tokens_per_step is None:
        return step(question, with_working=explain)
    from kvcalc.answers.step.tokens import step_of_tokens
    from kvcalc.units import parse_tokens

    return step_of_tokens(question, parse_tokens(str(tokens_per_step), "--tokens-per-step"))
