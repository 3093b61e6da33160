"""A figure shows its working, and the working gives the figure."""

import pytest

from kvcalc.answers.explain import evaluate, explain
from kvcalc.formulas.matmul import matmul_threshold_rows
from kvcalc.formulas.prefill import free_chunk_tokens
from kvcalc.formulas.speculative import tokens_per_pass
from kvcalc.results.base import Figure


def figure(formula: str, **inputs: float) -> Figure:
    return Figure(name="x", value=None, unit="1", formula=formula, inputs=inputs, source="a test")


def test_a_figure_has_name_unit_and_source() -> None:
    made = explain(tokens_per_pass, name="tokens per pass", alpha=0.8, gamma=4)
    assert (made.name, made.unit) == ("tokens per pass", "tokens")
    assert made.source.startswith("Leviathan et al. 2023")
    assert made.value == pytest.approx(3.3616)


def test_defaults_are_shown() -> None:
    made = explain(free_chunk_tokens, memory_time_s=7.36e-3, peak_flops=989e12, parameters=8.03e9, batch=64)
    assert made.inputs["compute_efficiency"] == 1.0
    assert made.substituted == "(0.00736 * 1 * 989_000_000_000_000 - 0) // (2 * 8_030_000_000) - 64"
    assert evaluate(made) == made.value == 389


def test_a_long_formula_continues_over_lines() -> None:
    made = explain(matmul_threshold_rows, ridge_flop_per_byte=295, d=4096, f=14336)
    assert "\n" not in made.formula
    assert evaluate(made) == made.value


def test_no_threshold_is_none_both_ways() -> None:
    made = explain(matmul_threshold_rows, ridge_flop_per_byte=295, d=256, f=256)
    assert made.value is None
    assert evaluate(made) is None


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError):
        explain(tokens_per_pass, alpha=0.8, gama=4)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a + b * 2", 8.5),
        ("-a // b", -1),
        ("a % b", 1.5),
        ("max(a, b, 0) - min(a, b)", 2),
        ("ceil(a / b) + floor(b)", 4),
        ("b ** 2", 12.25),
        ("a if a < b else b", 1.5),
        ("sum(i * a for i in range(4))", 9),
    ],
)
def test_arithmetic_is_understood(formula: str, value: float) -> None:
    assert evaluate(figure(formula, a=1.5, b=3.5)) == value


def test_negative_values_are_put_in_brackets() -> None:
    shown = figure("2 - a", a=-3)
    assert shown.substituted == "2 - (-3)"
    assert evaluate(shown) == 5


@pytest.mark.parametrize(
    "formula",
    [
        "unknown + 1",
        "__import__('os')",
        "a.real",
        "open('x')",
        "[a]",
        "'text'",
        "True",
        "sum(a for i in range(10 ** 9))",
        "sum(i for i in a)",
        "max(a, key=a)",
        "(lambda: a)()",
    ],
)
def test_anything_else_is_refused(formula: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        evaluate(figure(formula, a=1.5))
