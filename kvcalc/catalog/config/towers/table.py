"""Towers as tables: a tree of modules whose leaves say the tensors.

    self_attn.{q_proj,k_proj} = "column+ hidden_size hidden_size if use_qk"

A leaf is an operation and sizes, and may end in a condition:

    column out in    a matrix whose outputs divide over tensor-parallel ranks   (row: its inputs; linear: whole)
    conv out in k k  a convolution;   table rows width   an embedding;   norm size   a normalisation
    size size ...    a bare parameter;   buffer size ...   stored, but no parameter

`+` after the operation gives it a bias, `?key` one where the key is true. Braces are alternatives of a name. A part of
a name in brackets is a count: `layers.[num_hidden_layers]` stands for that many equal modules, and is named by the
first of them, `layers.0`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvcalc.catalog.config.towers.scope import Scope
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Category, Split, Tensor

Tree = Mapping[str, "str | Tree"]
MATRICES: dict[str, Split] = {"column": "columns", "row": "rows", "linear": "whole"}
COUNT = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]")  # [n], or [depths[0]]
WEIGHTED = (*MATRICES, "conv", "table", "norm")


class Leaf(NamedTuple):
    """One entry of a table, taken apart."""

    operation: str  # "" for a bare parameter
    bias: str  # "": none, "+": always, else the condition
    sizes: list[str]
    condition: str


def tensors_of(tree: Tree, scope: Scope, category: Category, path: str = "", copies: int = 1) -> Iterator[Tensor]:
    """The tensors of a module and of those inside it, in the table's order."""
    for written, inside in tree.items():
        for one in _alternatives(f"{path}.{written}" if path else written):
            name, count = _counted(one, scope)
            if not count:
                continue
            if isinstance(inside, str):
                yield from _leaf_tensors(name, parse(inside), scope, category, copies * count)
            else:
                yield from tensors_of(inside, scope, category, name, copies * count)


def parse(text: str) -> Leaf:
    """
    >>> parse("column?qkv_bias 3*hidden hidden if depth>1")
    Leaf(operation='column', bias='qkv_bias', sizes=['3*hidden', 'hidden'], condition='depth>1')
    """
    body, _, condition = text.partition(" if ")
    words = body.split()
    operation = re.match(r"[a-z]+", words[0])
    name = operation[0] if operation else ""
    if name == "buffer":
        return Leaf(name, "", words[1:], condition)
    if name not in WEIGHTED:
        return Leaf("", "", words, condition)
    return Leaf(name, words[0].removeprefix(name).removeprefix("?"), words[1:], condition)


def _leaf_tensors(name: str, leaf: Leaf, scope: Scope, category: Category, copies: int) -> Iterator[Tensor]:
    if leaf.condition and not scope.holds(leaf.condition):
        return
    shape = tuple(_at_least_one(size, scope) for size in leaf.sizes)
    if leaf.operation not in WEIGHTED:
        yield Tensor(name=name, shape=shape, category=category, copies=copies, buffer=leaf.operation == "buffer")
        return
    split = MATRICES.get(leaf.operation, "whole")
    matmul = leaf.operation in MATRICES
    yield Tensor(name=f"{name}.weight", shape=shape, category=category, split=split, copies=copies, matmul=matmul)
    if leaf.bias and (leaf.bias == "+" or scope.holds(leaf.bias)):
        after: Split = "columns" if split == "columns" else "whole"
        yield Tensor(name=f"{name}.bias", shape=shape[:1], category=category, split=after, copies=copies)


def _at_least_one(text: str, scope: Scope) -> int:
    size = scope.size(text)
    if size < 1:
        raise KvcalcError(f"a tower's {scope.keys.path(text)} is {size}", hint="correct it in the config")
    return size


def _counted(name: str, scope: Scope) -> tuple[str, int]:
    """A name with its bracketed counts as noughts, and the product of the counts."""
    count = 1
    for text in COUNT.findall(name):
        count *= scope.size(text)
    return COUNT.sub("0", name), count


def _alternatives(name: str) -> list[str]:
    """
    >>> _alternatives("attn.{q,k}_proj")
    ['attn.q_proj', 'attn.k_proj']
    """
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    return [
        one for part in found[1].split(",") for one in _alternatives(name[: found.start()] + part + name[found.end() :])
    ]
