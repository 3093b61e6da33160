"""Every public formula says what it means, its units and its source, and its Formula line is what it computes."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kvcalc.formulas
from kvcalc.answers.explain import docstring_lines, evaluate, explain
from kvcalc.formulas.number import F, N
from kvcalc.specs.base import replace

Formula = Callable[..., Any]


def public_formulas() -> Iterator[Formula]:
    for module in pkgutil.iter_modules(kvcalc.formulas.__path__):
        for name, fn in vars(importlib.import_module(f"kvcalc.formulas.{module.name}")).items():
            if inspect.isfunction(fn) and not name.startswith("_") and fn.__module__.endswith(f".{module.name}"):
                yield fn


FORMULAS = sorted(public_formulas(), key=lambda fn: (fn.__module__, fn.__name__))
EVALUABLE = [fn for fn in FORMULAS if "Formula" in docstring_lines(fn)]
SHARES = {"alpha", "decay", "weight_share", "compute_efficiency"}
# Where arrays cannot go: a choice between two values, or a count of terms.
OF_SCALARS = {
    "roofline_time", "prefill_time", "windowed_pairs", "matmul_threshold_rows", "tokens_per_pass",
}  # fmt: skip


def name_of(fn: Formula) -> str:
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}"


def examples(fn: Formula) -> Iterator[dict[str, float]]:
    """Arguments of every size; shares stay below 1, and nobody chooses more experts than there are."""
    rng = np.random.default_rng(len(fn.__name__))
    for _ in range(20):
        inputs = {name: int(2 ** rng.uniform(1, 12)) for name in inspect.signature(fn).parameters}
        shares = {name: float(rng.uniform(0.05, 1)) for name in SHARES & inputs.keys()}
        yield inputs | shares | ({"top_k": 2} if "top_k" in inputs else {})


@pytest.mark.parametrize("fn", FORMULAS, ids=name_of)
def test_docstring_is_complete(fn: Formula) -> None:
    doc = inspect.getdoc(fn) or ""
    lines = docstring_lines(fn)
    assert doc.split("\n\n")[0].rstrip().endswith("."), "the first line says what it is"
    assert lines.get("Unit"), "Unit:"
    assert lines.get("Source"), "Source:"
    assert ">>>" in doc, "an example"
    arguments = doc.partition("Args:\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^    (\w+): \S", arguments, flags=re.M)
    assert documented == list(inspect.signature(fn).parameters)


@pytest.mark.parametrize("fn", FORMULAS, ids=name_of)
def test_only_functions_of_lists_lack_a_formula(fn: Formula) -> None:
    scalar = {int, float, N, F, float | None}
    takes_or_gives_many = not scalar.issuperset(inspect.get_annotations(fn).values())
    searches = fn.__name__ == "best_draft_length"
    assert (fn in EVALUABLE) != (takes_or_gives_many or searches)


@pytest.mark.parametrize("fn", EVALUABLE, ids=name_of)
def test_formula_line_is_what_the_function_returns(fn: Formula) -> None:
    for inputs in examples(fn):
        figure = explain(fn, None, **inputs)
        want = figure.value
        for have in (evaluate(figure), evaluate(replace(figure, formula=figure.substituted))):
            assert have is None if want is None else have == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("fn", [fn for fn in EVALUABLE if fn.__name__ not in OF_SCALARS], ids=name_of)
def test_arrays_give_what_scalars_give(fn: Formula) -> None:
    points = list(examples(fn))
    columns = {name: np.array([point[name] for point in points]) for name in points[0]}
    assert fn(**columns) == pytest.approx([fn(**point) for point in points])


def test_whole_numbers_stay_exact() -> None:
    for fn in EVALUABLE:
        if inspect.get_annotations(fn)["return"] is N:
            arguments = dict.fromkeys(inspect.signature(fn).parameters, 10**6 + 3)
            assert isinstance(fn(**arguments), int), name_of(fn)
