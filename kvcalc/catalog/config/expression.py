"""The one language of the tables: Python's expressions over the names of a scope. docs/reference/expressions.md says
what it has. An expression is parsed by `ast` and walked here, never handed to `eval`.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache

from kvcalc.catalog.config.keys import shown
from kvcalc.errors import KvcalcError

Value = int | float | str | bool | list[object] | None
Lookup = Callable[[str], Value]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: _number(a) < _number(b),
    ast.LtE: lambda a, b: _number(a) <= _number(b),
    ast.Gt: lambda a, b: _number(a) > _number(b),
    ast.GtE: lambda a, b: _number(a) >= _number(b),
}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "len": lambda value: len(value) if isinstance(value, list | str) else 1,  # a scalar stands for a list of one
    "int": lambda value: int(_number(value)),
    "log2": lambda value: int(_number(value)).bit_length() - 1,
    "count": lambda entries, wanted: entries.count(wanted) if isinstance(entries, list) else 0,
}


def evaluate(expression: str | ast.expr, lookup: Lookup) -> Value:
    """The value of an expression; `lookup` gives the value of a name, dots included, None where it has none.

    Raises:
        KvcalcError: the names give no value: a division by zero, an object for a size.

    >>> evaluate("(image_size//patch_size)**2 + 1", {"image_size": 336, "patch_size": 14}.get)
    577
    """
    try:
        return _value(parse(expression) if isinstance(expression, str) else expression, lookup)
    except (ZeroDivisionError, TypeError, OverflowError, IndexError) as error:
        raise KvcalcError(
            f"a size cannot be computed: {written(expression)} ({error})",
            hint="correct the keys of the config that it is made of",
        ) from error


@cache
def parse(text: str) -> ast.expr:
    """The expression as a tree; a SyntaxError is a fault of the table."""
    return ast.parse(text, mode="eval").body


def written(expression: str | ast.expr) -> str:
    """The expression as text, for messages."""
    return expression if isinstance(expression, str) else ast.unparse(expression)


def names(text: str) -> Iterator[str]:
    """The names that an expression is made of, dotted ones by their first part; functions left out.

    >>> sorted(names("len(depths) if vision.deep else hidden_size"))
    ['depths', 'hidden_size', 'vision']
    """
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS:
            yield node.id


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{shown(value)} is not a number")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    assert isinstance(node, ast.Name), ast.dump(node)
    return node.id


def _value(node: ast.expr, lookup: Lookup) -> Value:
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.Name() | ast.Attribute():
            return lookup(_dotted(node))
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_number(_value(left, lookup)), _number(_value(right, lookup)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, lookup)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand, lookup))
        case ast.BoolOp(op=op, values=values):
            found: Value = None
            for part in values:
                found = _value(part, lookup)
                if bool(found) == isinstance(op, ast.Or):
                    break
            return found
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, lookup) else orelse, lookup)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_value(left, lookup), _value(right, lookup))
        case ast.Subscript(value=value, slice=index):
            entries, place = _value(value, lookup), int(_number(_value(index, lookup)))
            return _number(entries[place]) if isinstance(entries, list) else entries
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(argument, lookup) for argument in arguments))
    raise AssertionError(f"not in the language of the tables: {ast.dump(node)}")
