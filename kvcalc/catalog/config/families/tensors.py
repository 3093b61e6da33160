"""Small builders of tensors, so that a family reads as a list of what it has."""

from kvcalc.specs.model import Category, Split, Tensor, bias_split


def linear(name: str, outputs: int, inputs: int, category: Category, split: Split, bias: bool = False) -> list[Tensor]:
    """A matrix and, if it has one, its bias."""
    name = name.removeprefix(".")  # a module without a name
    return _pair((f"{name}.weight", f"{name}.bias"), outputs, inputs, category, split, bias)


def stacked(name: str, outputs: int, inputs: int, category: Category, split: Split, bias: bool = False) -> list[Tensor]:
    """The same where a checkpoint stacks all copies in one tensor, which then has no `.weight` of its own."""
    return _pair((name, f"{name}_bias"), outputs, inputs, category, split, bias)


def _pair(
    names: tuple[str, str], outputs: int, inputs: int, category: Category, split: Split, bias: bool
) -> list[Tensor]:
    found = [Tensor(name=names[0], shape=(outputs, inputs), category=category, split=split, matmul=True)]
    if bias:
        found.append(Tensor(name=names[1], shape=(outputs,), category=category, split=bias_split(split)))
    return found


def norm(name: str, kind: str, *shape: int, split: Split = "whole", category: Category = "norm") -> list[Tensor]:
    """A normalisation: a weight, and a bias for `kind` "bias"; nothing for "none"."""
    parts = {"none": (), "weight": ("weight",), "bias": ("weight", "bias")}[kind]
    return [Tensor(name=f"{name}.{part}", shape=shape, category=category, split=split) for part in parts]
