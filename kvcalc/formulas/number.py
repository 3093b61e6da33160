"""The types of formulas: numbers, or NumPy arrays of them, which broadcast."""

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.floating[Any]]
    Quantity: TypeAlias = float | Array  # a number, or an array of them
else:
    Array = Quantity = Any  # NumPy is imported once an array is there

# All arguments int: an exact int comes back. Any of them float: a float. An array among them: what NumPy makes of it.
N = TypeVar("N", int, float, "Quantity")
F = TypeVar("F", float, "Quantity")  # where a division leaves no whole number
