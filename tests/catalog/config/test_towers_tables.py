"""The language of the tables: expressions, scopes, and the tensors of towers."""

import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.config.expression import evaluate
from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.scope import Scope
from kvcalc.catalog.config.towers.data import MODELS, TOWERS, model_table, tower_table
from kvcalc.catalog.config.towers.table import tensors_of
from kvcalc.errors import KvcalcError


def names_in(parts: tuple[str, ...]) -> list[str]:
    texts = [
        files("kvcalc.catalog.config.towers").joinpath(f"{part}.toml").read_text(encoding="utf-8") for part in parts
    ]
    return [name for text in texts for name in tomllib.loads(text)]


@pytest.mark.parametrize("name", names_in(TOWERS))
def test_every_tower_table_reads(name: str) -> None:
    assert tower_table(name) is not None


@pytest.mark.parametrize("name", names_in(MODELS))
def test_every_model_table_reads_and_names_known_towers(name: str) -> None:
    table = model_table(name)
    assert table is not None
    assert all(tower_table(part.type) is not None for part in table.parts.values())


def test_no_table_hides_another() -> None:
    assert len(names_in(TOWERS)) == len(set(names_in(TOWERS)))
    assert len(names_in(MODELS)) == len(set(names_in(MODELS)))


@given(st.integers(1, 2000), st.integers(1, 64), st.integers(0, 9))
def test_arithmetic_is_pythons(a: int, b: int, c: int) -> None:
    names = {"a": a, "b": b, "c": c}
    assert evaluate("(a//b)**2+3*c-1", names.get) == (a // b) ** 2 + 3 * c - 1
    assert evaluate("c or a", names.get) == (c or a)
    assert evaluate("a if b>c else b", names.get) == (a if b > c else b)


def test_lists_and_scalars() -> None:
    names = {"both": [14, 28], "one": 14, "kinds": ["conv", "full", "conv"]}
    assert evaluate("both[-1]*one[0]", names.get) == 28 * 14, "a scalar stands for a list of it"
    assert evaluate("len(both)+len(one)", names.get) == 3
    assert evaluate("count(kinds,'conv')", names.get) == 2


@pytest.mark.parametrize("text", ["a//b", "missing*2", "kinds[7]", "kinds+1"])
def test_what_cannot_be_computed_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(KvcalcError, match="cannot be computed"):
        evaluate(text, {"a": 1, "b": 0, "kinds": [1]}.get)


def test_a_tree_becomes_tensors() -> None:
    tree = {
        "layers.0": {
            "copies": "depth",
            "attn.q attn.k": "column(wide, wide, bias=bias)",
            "norm": "norm(wide, bias=True, when=normed)",
        },
        "head": "linear(10, wide)",
        "probe": "parameter(1, wide)",
        "mean": "buffer(wide, copies=2)",
    }
    scope = Scope(Keys({"depth": 3, "bias": True, "normed": False}), sizes={"wide": "4*depth"})
    found = {t.name: (t.shape, t.copies, t.split, t.matmul, t.buffer) for t in tensors_of(tree, scope, "vision")}
    assert found == {
        "layers.0.attn.q.weight": ((12, 12), 3, "columns", True, False),
        "layers.0.attn.q.bias": ((12,), 3, "columns", False, False),
        "layers.0.attn.k.weight": ((12, 12), 3, "columns", True, False),
        "layers.0.attn.k.bias": ((12,), 3, "columns", False, False),
        "head.weight": ((10, 12), 1, "whole", True, False),
        "probe": ((1, 12), 1, "whole", False, False),
        "mean": ((12,), 2, "whole", False, True),
    }


def test_no_layers_no_tensors() -> None:
    assert not list(
        tensors_of({"layers.0": {"copies": "depth", "norm": "norm(4)"}}, Scope(Keys({"depth": 0})), "vision")
    )


def test_aliases_and_other_configs() -> None:
    text = Scope(Keys({"hidden_size": 64}))
    scope = Scope(Keys({"width": 8, "nested": {"deep": 2}}), aliases={"hidden": ["width"]}, others={"text": text})
    assert scope.size("hidden*text.hidden_size*nested.deep") == 8 * 64 * 2


@pytest.mark.parametrize("text", ["nothing", "name", "flag", "half"])
def test_a_size_is_a_whole_number(text: str) -> None:
    with pytest.raises(KvcalcError, match=f"x.{text} does not come to a size"):
        Scope(Keys({"name": "wide", "flag": True, "half": 0.5}, "x")).size(text)
