"""The type of a formula that keeps whole numbers whole."""

from typing import TypeVar

# All arguments int: an exact int comes back. Any of them float: a float. NumPy arrays broadcast.
N = TypeVar("N", int, float)
