"""What a flag says of a value that it cannot read: an example that it would take."""

import re
from typing import Any

import pytest

from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.answers.prefill.answer import PrefillSettings
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.speculate.settings import SpeculateSettings
from kvcalc.errors import KvcalcError
from kvcalc.specs.budget import Limits
from kvcalc.specs.checked import checked, read_from_text
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.load import Workload

SPECS: tuple[Any, ...] = (
    Deployment,
    Workload,
    Limits,
    PlanSettings,
    PrefillSettings,
    SimulateSettings,
    SpeculateSettings,
)
FIELDS = [(spec, field) for spec in SPECS for field in sorted(read_from_text(spec)) if field != "engine"]


def taken(spec: Any, field: str, example: str) -> bool:
    try:
        checked(spec, {field: example})
    except KvcalcError:
        return False
    return True


@pytest.mark.parametrize("spec, field", FIELDS, ids=[f"{spec.__name__}.{field}" for spec, field in FIELDS])
def test_the_hint_has_an_example_that_is_taken(spec: Any, field: str) -> None:
    with pytest.raises(KvcalcError) as found:
        checked(spec, {field: "a lot"})
    examples = re.findall(r"[$\d.][\w.%/]*", found.value.hint)
    assert any(taken(spec, field, example) for example in examples), found.value.hint
