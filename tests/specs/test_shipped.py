"""The TOML that kvcalc ships is trusted when it runs, so it is checked here as strictly as a user's."""

from pathlib import Path

import pytest

from kvcalc.catalog.cards import Card, card_names, read_card
from kvcalc.catalog.config.families.table import PARTS, _entry, traits_of
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.towers import data as towers
from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.catalog.gpus import gpu_names, load_gpu, spec_path
from kvcalc.results.data import said_of
from kvcalc.specs.build import build
from kvcalc.specs.from_file import Mistake, from_file
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import Kernels

KERNELS = sorted(path for path in (data_dir("gpu_specs") / "kernels").glob("*.toml") if path.stem != "classes")


def test_every_gpu_spec() -> None:
    for name in gpu_names():
        assert from_file(GpuSpec, read_toml(spec_path(name), "GPU spec")) == load_gpu(name)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_every_file_of_kernels(path: Path) -> None:
    table = read_toml(path, "GPU kernels")
    assert from_file(Kernels, table) == build(Kernels, table)


def test_every_card() -> None:
    for name in card_names():
        assert isinstance(read_card(data_dir("model_cards") / f"{name}.toml"), Card)


def test_every_family_and_tower() -> None:
    folder = Path(towers.__file__).parent
    types = {key for file in towers.TOWERS for key in read_toml(folder / f"{file}.toml", "towers")}
    for name in sorted(types):
        if (table := towers.tower_table(name)) is not None:
            assert from_file(towers.TowerTable, said_of(table)) == table
    families = Path(towers.__file__).parents[1] / "families"
    for name in sorted({key for part in PARTS for key in read_toml(families / f"{part}.toml", "families")}):
        if _entry(name) is not None:
            assert from_file(Traits, said_of(traits_of(name))) == traits_of(name)


def test_a_mistake_would_be_seen() -> None:
    with pytest.raises(Mistake):
        from_file(GpuSpec, said_of(load_gpu("l4")) | {"memory_bytes": -1})
