"""Figures from formulas: run one, and take its working from its own docstring; or evaluate a figure again."""

import ast
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from kvcalc.counting.arrays import Quantity, single
from kvcalc.results.base import Figure, Range
from kvcalc.specs.base import replace

SPECULATED = "docs/explanation/speculation.md: the speed-up of `kvcalc speculate`"

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda base, exponent: float(base) ** exponent,  # a huge power overflows instead of filling memory
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": max, "min": min, "floor": math.floor, "ceil": math.ceil, "median": lambda *values: _median(sorted(values)),
}  # fmt: skip
_MOST_TERMS = 10_000
SPREAD = "docs/reference/accuracy.md: about 80 % of measurements fall between the ends"

Number = float | int


def explain(fn: Callable[..., Any], name: str | None = None, **inputs: Quantity) -> Figure:
    """Run a formula of `kvcalc.formulas` and return its value with its formula, unit and source.

    Args:
        fn: The formula; its docstring has the lines `Formula:`, `Unit:` and `Source:`.
        name: What to call the figure; the function's name by default.
        inputs: The formula's arguments, in base units, each of a single point. Those left out take their defaults
            and are shown too.

    >>> from kvcalc.formulas.cache import kv_bytes_per_token
    >>> figure = explain(kv_bytes_per_token, layers=32, kv_heads=8, head_dim=128, bytes_per_element=2)
    >>> figure.value, figure.unit, figure.substituted
    (131072, 'bytes/token', '2 * 32 * 8 * 128 * 2')
    """
    bound = inspect.signature(fn).bind(**{key: single(value) for key, value in inputs.items()})
    bound.apply_defaults()
    lines = docstring_lines(fn)
    return Figure(
        name=name or fn.__name__,
        value=fn(*bound.args, **bound.kwargs),
        unit=lines["Unit"],
        formula=lines["Formula"],
        inputs=dict(bound.arguments),
        source=lines["Source"],
    )


@cache
def docstring_lines(fn: Callable[..., Any]) -> dict[str, str]:
    """The `Formula:`, `Unit:` and `Source:` of a function's docstring; a line indented below one continues it."""
    found: dict[str, str] = {}
    last = None
    for line in (inspect.getdoc(fn) or "").splitlines():
        key, colon, rest = line.partition(":")
        if colon and key in ("Formula", "Unit", "Source"):
            last = key
            found[key] = rest.strip()
        elif last and line.startswith(" "):
            found[last] += " " + line.strip()
        else:
            last = None
    return found


def figure_of(name: str, formula: str, inputs: Mapping[str, Number], unit: str, source: str) -> Figure:
    """A figure that is what its formula gives at its inputs.

    >>> figure_of("wait", "2 * step_s", {"step_s": 0.01}, "s", "docs").value
    0.02
    """
    bare = Figure(name=name, value=None, unit=unit, formula=formula, inputs=dict(inputs), source=source)
    return replace(bare, value=evaluate(bare))


def total(name: str, parts: Mapping[str, Number], unit: str, source: str) -> Figure:
    """A figure that is the sum of its parts, which are named as a reader calls them.

    >>> total("step", {"gate and up": 0.25, "qkv": 0.5}, "s", "docs").formula
    'gate_and_up + qkv'
    """
    inputs: dict[str, Number] = {}
    for part, value in parts.items():
        plain = re.sub(r"\W+", "_", part).strip("_")
        plain = plain if plain[:1].isalpha() else f"of_{plain}"
        inputs[f"{plain}_{len(inputs)}" if plain in inputs else plain] = value
    return figure_of(name, " + ".join(inputs) or "0", inputs, unit, source)


def labelled(label: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Figures of one row of many, named by it."""
    for one in figures:
        yield replace(one, name=f"{label}: {one.name}")


def ends(name: str, found: Range, unit: str, source: str = SPREAD) -> Iterator[Figure]:
    """The ends of a range, as shares of the value; nothing where it has no width."""
    for end in ("low", "high"):
        share = getattr(found, end) / found.value if found.value else 1.0
        if share != 1.0:
            yield figure_of(f"{name}, {end}", "share * value", {"share": share, "value": found.value}, unit, source)


def evaluate(figure: Figure) -> Number | None:
    """A figure's formula at its inputs: what a reader would get who typed it in.

    Only arithmetic, comparisons, `x if condition else y`, max, min, floor, ceil, median and `sum(... for i in
    range(...))` are understood; nothing else is run.

    Raises:
        ValueError: The formula holds anything else, or a name that is not among the inputs.

    >>> evaluate(Figure(name="a", value=6, unit="", formula="2 * max(x, 1)", inputs={"x": 3}, source=""))
    6
    """
    result: Number | None = _value(ast.parse(figure.formula, mode="eval").body, figure.inputs)
    return result


def _value(node: ast.expr, names: Mapping[str, Number]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | None as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp(elt=term, generators=[loop])], keywords=[]):
            return _sum(term, loop, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(arg, names) for arg in args))
    raise ValueError(f"not arithmetic in the inputs: {ast.unparse(node)}")


def _median(values: list[float]) -> float:
    """
    >>> _median([1, 2, 4]), _median([1, 2, 4, 5])
    (2.0, 3.0)
    """
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def _sum(term: ast.expr, loop: ast.comprehension, names: Mapping[str, Number]) -> Any:
    match loop:
        case ast.comprehension(
            target=ast.Name(id=index), iter=ast.Call(func=ast.Name(id="range"), args=args, keywords=[]), ifs=[]
        ):
            steps = range(*(_value(arg, names) for arg in args))
            if len(steps) <= _MOST_TERMS:
                return sum(_value(term, {**names, index: i}) for i in steps)
    raise ValueError(f"not a short sum over a range: {ast.unparse(term)}")
