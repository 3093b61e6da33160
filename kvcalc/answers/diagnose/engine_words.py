"""Advice in an engine's own flags; kvcalc's are vLLM's."""

from kvcalc.engines import rules
from kvcalc.results.size import Advice
from kvcalc.specs.base import replace


def in_engine_words(advice: Advice, engine: str) -> Advice:
    """The same change, as that engine's command line takes it.

    >>> in_engine_words(Advice(change="--max-model-len 4096", effect="fits"), "sglang").change
    '--context-length 4096'
    """
    change = advice.change
    for ours, theirs in rules(engine).FLAGS.items():
        if change == ours or change.startswith(ours + " "):
            change = theirs + change[len(ours) :]
    return replace(advice, change=change)
