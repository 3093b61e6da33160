"""Sizes and switches that are up to the config, as the family tables write them: small Python expressions.

Names are sizes of the layer ("hidden", "heads", "q_width" …) or keys of the config; a key that is absent or null is
nought. Operators: + - * //, and or not, comparisons; `a[1]` is an entry of a list, `default(key, True)` what an
absent key means. Nothing else is understood, and nothing is run.
"""

import ast
from collections.abc import Mapping
from functools import cache

from kvcalc.catalog.keys import Keys
from kvcalc.errors import KvcalcError

Value = int | str
_EMPTY: Mapping[str, int] = {}
_LARGEST = 10**15


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def switch(keys: Keys, value: bool | str, scope: Mapping[str, int] = _EMPTY) -> bool:
    """Whether a trait is on."""
    return value if isinstance(value, bool) else bool(_value(_parsed(value), keys, scope))


def size(keys: Keys, value: int | str, scope: Mapping[str, int] = _EMPTY) -> int:
    """A number of elements; nought where the keys it is made of are not there."""
    if isinstance(value, int):
        return value
    found = _value(_parsed(value), keys, scope)
    if isinstance(found, str) or not -_LARGEST < found < _LARGEST:
        raise KvcalcError(f"{value} does not come to a size", hint="correct the keys it is made of")
    return int(found)


def _value(node: ast.expr, keys: Keys, scope: Mapping[str, int]) -> Value:
    match node:
        case ast.Constant(value=int() | str() as value):
            return value
        case ast.Name(id=name):
            return scope[name] if name in scope else _key(keys, name)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _value(left, keys, scope), _value(right, keys, scope))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, keys, scope)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -int(_value(operand, keys, scope))
        case ast.BoolOp(op=op, values=values):
            found: Value = 0
            for part in values:
                found = _value(part, keys, scope)
                if bool(found) == isinstance(op, ast.Or):
                    break
            return found
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            return _value(left, keys, scope) == _value(right, keys, scope)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int() as index)):
            return keys.entry(name, index)
        case ast.Call(func=ast.Name(id="default"), args=[ast.Name(id=name), ast.Constant(value=absent)]):
            return _key(keys, name) if keys.known_to_say(name) else absent
    raise ValueError(f"not understood in a family table: {ast.unparse(node)}")


def _key(keys: Keys, name: str) -> Value:
    value = keys.raw(name)
    if value is None or isinstance(value, bool | str):
        return value or 0
    return keys.count(name) if isinstance(value, int | float) else len(value) if isinstance(value, list) else 1


def _arithmetic(op: ast.operator, left: Value, right: Value) -> int:
    a, b = int(left), int(right)
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() if b:
            return a // b
    raise ValueError(f"not understood in a family table: {ast.dump(op)}")
