"""Least and greatest of numbers or of NumPy arrays, so that one definition serves one point and a sweep of many.

NumPy is imported only once an array is there; `size`, `step` and `kv` never have one.

Unit: that of what is compared
Source: arithmetic
"""

from typing import TYPE_CHECKING

from kvcalc.formulas.number import Array, Quantity

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["Array", "Quantity", "greatest", "is_array", "least", "single"]


NUMBERS = (int, float)


def is_array(value: Quantity) -> "TypeIs[Array]":
    """Whether a quantity is a sweep of many points.

    >>> is_array(3)
    False
    """
    return type(value) not in NUMBERS and hasattr(value, "__array__")


def single(value: Quantity) -> float:
    """A quantity of a single point, as it is: a whole number stays one.

    Raises ValueError for a sweep of several points.

    >>> single(3), single(2.5)
    (3, 2.5)
    """
    return value if isinstance(value, int | float) else value.item()


def least(one: Quantity, other: Quantity) -> Quantity:
    """The smaller of two, element by element where one is an array.

    >>> least(3, 2)
    2
    """
    if type(one) is float and type(other) is float:  # nearly always, and without a look for arrays
        return other if other < one else one
    if is_array(one) or is_array(other):
        import numpy as np

        found: Array = np.minimum(one, other)
        return found
    return min(one, other)


def greatest(one: Quantity, other: Quantity) -> Quantity:
    """The larger of two, element by element where one is an array.

    >>> greatest(3, 2)
    3
    """
    if type(one) is float and type(other) is float:
        return other if other > one else one
    if is_array(one) or is_array(other):
        import numpy as np

        found: Array = np.maximum(one, other)
        return found
    return max(one, other)
