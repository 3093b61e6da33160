"""Small builders of tensors, so that a family reads as a list of what it has."""

from kvcalc.specs.model import Category, Split, Tensor


def linear(
    name: str, outputs: int, inputs: int, category: Category, split: Split, bias: bool = False, copies: int = 1
) -> list[Tensor]:
    """A matrix and, if it has one, its bias. A bias after a row-split matrix is whole: it is added once."""
    found = [
        Tensor(
            name=f"{name}.weight", shape=(outputs, inputs), category=category, split=split, copies=copies, matmul=True
        )
    ]
    if bias:
        after: Split = "whole" if split == "rows" else split
        found.append(Tensor(name=f"{name}.bias", shape=(outputs,), category=category, split=after, copies=copies))
    return found


def norm(name: str, kind: str, *shape: int, split: Split = "whole", category: Category = "norm") -> list[Tensor]:
    """A normalisation: a weight, and a bias for `kind` "bias"; nothing for "none" or no name."""
    if kind == "none" or not name:
        return []
    parts = ("weight", "bias") if kind == "bias" else ("weight",)
    return [Tensor(name=f"{name}.{part}", shape=shape, category=category, split=split) for part in parts]
