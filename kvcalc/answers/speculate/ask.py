"""From what the user typed to a report on drafts: the same for a command line and for Python."""

from collections.abc import Mapping
from typing import Any

from kvcalc.answers.question import ask
from kvcalc.answers.speculate.answer import speculate
from kvcalc.answers.speculate.settings import SpeculateSettings
from kvcalc.results.speculate import SpeculateReport
from kvcalc.specs.checked import settings_of


def speculate_from(model: str, flags: Mapping[str, Any], explain: bool = True) -> SpeculateReport:
    """Drafts on the deployment of the flags, `speculate`'s own among them."""
    settings, left = settings_of(SpeculateSettings, flags)
    return speculate(ask(model, left), settings, with_working=explain)
