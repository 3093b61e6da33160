"""Small builders of tensors, so that a family reads as a list of what it has."""

from kvcalc.specs.model import Category, Split, Tensor, bias_split


def linear(
    name: str, outputs: int, inputs: int, category: Category, split: Split, bias: bool = False, copies: int = 1
) -> list[Tensor]:
    """A matrix and, if it has one, its bias."""
    name = name.removeprefix(".")  # a module without a name
    return _pair(f"{name}.weight", f"{name}.bias", outputs, inputs, category, split, bias, copies)


def stacked(
    name: str, outputs: int, inputs: int, category: Category, split: Split, bias: bool = False, copies: int = 1
) -> list[Tensor]:
    """The same where a checkpoint stacks all copies in one tensor, which then has no `.weight` of its own."""
    return _pair(name, f"{name}_bias", outputs, inputs, category, split, bias, copies)


def _pair(
    name: str, bias_name: str, outputs: int, inputs: int, category: Category, split: Split, bias: bool, copies: int
) -> list[Tensor]:
    found = [Tensor(name=name, shape=(outputs, inputs), category=category, split=split, copies=copies, matmul=True)]
    if bias:
        found.append(
            Tensor(name=bias_name, shape=(outputs,), category=category, split=bias_split(split), copies=copies)
        )
    return found


def norm(name: str, kind: str, *shape: int, split: Split = "whole", category: Category = "norm") -> list[Tensor]:
    """A normalisation: a weight, and a bias for `kind` "bias"; nothing for "none"."""
    parts = {"none": (), "weight": ("weight",), "bias": ("weight", "bias")}[kind]
    return [Tensor(name=f"{name}.{part}", shape=shape, category=category, split=split) for part in parts]
