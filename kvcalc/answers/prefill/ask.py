"""From what the user typed to a prompt's report: the same for a command line and for Python."""

from collections.abc import Mapping
from typing import Any

from kvcalc.answers.prefill.answer import PrefillSettings, prefill
from kvcalc.answers.question import ask
from kvcalc.results.prefill import PrefillReport
from kvcalc.specs.checked import settings_of


def prefill_from(model: str, flags: Mapping[str, Any], explain: bool = True) -> PrefillReport:
    """A prompt on the deployment of the flags, `prefill`'s own among them."""
    settings, left = settings_of(PrefillSettings, flags)
    return prefill(ask(model, left), settings, with_working=explain)
