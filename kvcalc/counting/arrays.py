"""Least and greatest of numbers or of NumPy arrays, so that one definition serves one point and a sweep of many.

NumPy is imported only once an array is there; `size`, `step` and `kv` never have one.
"""

from typing import Any

Quantity = Any  # a number, or a NumPy array of them


def is_array(value: Quantity) -> bool:
    """Whether a quantity is a sweep of many points.

    >>> is_array(3)
    False
    """
    return hasattr(value, "__array__")


def least(one: Quantity, other: Quantity) -> Quantity:
    """The smaller of two, element by element where one is an array.

    >>> least(3, 2)
    2
    """
    if is_array(one) or is_array(other):
        import numpy as np

        return np.minimum(one, other)
    return min(one, other)


def greatest(one: Quantity, other: Quantity) -> Quantity:
    """The larger of two, element by element where one is an array.

    >>> greatest(3, 2)
    3
    """
    if is_array(one) or is_array(other):
        import numpy as np

        return np.maximum(one, other)
    return max(one, other)
