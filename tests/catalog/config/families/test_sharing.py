"""Whose cache, whose index."""

import pytest

from kvcalc.catalog.config.families.sharing import indexers, owners
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError


def test_the_last_layers_share() -> None:
    assert owners(Keys({"num_kv_shared_layers": 2}), ["full"] * 4) == [True, True, False, False]
    assert owners(Keys({}), ["full"] * 2) == [True, True]


def test_sources_by_layer() -> None:
    assert owners(Keys({"kv_source_layers": [0, 0, 2]}), ["full"] * 3) == [True, False, True]


def test_all_layers_cannot_share() -> None:
    with pytest.raises(KvcalcError, match="4 of 4 layers"):
        owners(Keys({"num_kv_shared_layers": 4}), ["full"] * 4)


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({}, "FFFFFFFF"),
        ({"indexer_types": ["full", "full", "full", "shared", "shared", "shared", "full", "shared"]}, "FFFSSSFS"),
        ({"index_topk_pattern": "FFSF"}, "FFSFFFFF"),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, "FFFSSSFS"),  # GLM-5.2
    ],
)
def test_indexers(config: dict[str, object], want: str) -> None:
    assert "".join("F" if own else "S" for own in indexers(Keys(config), 8)) == want


def test_an_unknown_kind_of_indexer() -> None:
    with pytest.raises(KvcalcError, match="indexer_types"):
        indexers(Keys({"indexer_types": ["half"]}), 1)
