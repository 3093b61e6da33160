"""Towers as tables: a tree of modules whose leaves say the tensors, each a call in the language of expressions.

    "self_attn.q_proj self_attn.k_proj" = "column(hidden_size, hidden_size, bias=attention_bias, when=use_qk)"

docs/reference/expressions.md says what may be called.
"""

import ast
from collections.abc import Iterator, Mapping

from kvcalc.catalog.config.expression import parse
from kvcalc.catalog.config.scope import Scope
from kvcalc.specs.model import Category, Split, Tensor, bias_split

Tree = Mapping[str, "str | int | Tree"]
MATRICES: dict[str, Split] = {"column": "columns", "row": "rows", "linear": "whole"}
WEIGHTED = {*MATRICES, "conv", "table", "norm"}  # modules with a weight; "parameter" and "buffer" are bare
COPIES = "copies"  # how many equal modules a module stands for; the first gives the name


def tensors_of(tree: Tree, scope: Scope, category: Category, path: str = "", copies: int = 1) -> Iterator[Tensor]:
    """The tensors of a module and of those inside it, in the table's order. A key may name several alike."""
    copies *= scope.size(tree[COPIES]) if COPIES in tree else 1  # type: ignore[arg-type]
    if not copies:
        return
    for written, inside in tree.items():
        for name in written.split() if written != COPIES else ():
            full = f"{path}.{name}" if path else name
            if isinstance(inside, str):
                yield from _tensors(full, parse(inside), scope, category, copies)
            elif isinstance(inside, Mapping):
                yield from tensors_of(inside, scope, category, full, copies)


def _tensors(name: str, leaf: ast.expr, scope: Scope, category: Category, copies: int) -> Iterator[Tensor]:
    assert isinstance(leaf, ast.Call), ast.dump(leaf)
    assert isinstance(leaf.func, ast.Name), ast.dump(leaf)
    kind, said = leaf.func.id, {word.arg: word.value for word in leaf.keywords}
    if "when" in said and not scope.holds(said["when"]):
        return
    copies *= scope.size(said[COPIES]) if COPIES in said else 1
    if not copies:
        return
    shape = tuple(scope.at_least_one(side, name) for side in leaf.args)
    if kind not in WEIGHTED:
        assert kind in ("parameter", "buffer"), kind
        yield Tensor(name=name, shape=shape, category=category, copies=copies, buffer=kind == "buffer")
        return
    split = MATRICES.get(kind, "whole")
    yield Tensor(
        name=f"{name}.weight", shape=shape, category=category, split=split, copies=copies, matmul=kind in MATRICES
    )
    if "bias" in said and scope.holds(said["bias"]):
        yield Tensor(name=f"{name}.bias", shape=shape[:1], category=category, split=bias_split(split), copies=copies)
