"""A user's GPU spec that contradicts itself is refused with the field."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from kvcalc.catalog.gpu_faults import faults
from kvcalc.catalog.gpus import gpu_from_toml, gpu_names, load_gpu, spec_text
from kvcalc.errors import KvcalcError

PRICE = {"low_usd_per_hour": 1.0, "median_usd_per_hour": 2.0, "high_usd_per_hour": 3.0, "date": "2026-01",
         "source": "a contract"}  # fmt: skip


def read(place: Path, **other: Any) -> None:
    path = place / "mine.toml"
    path.write_text(tomli_w.dumps(tomllib.loads(spec_text("l4")) | other))
    gpu_from_toml(path)


@pytest.mark.parametrize("other, said", [
    ({"usable_memory_bytes": 48_000_000_000}, "usable_memory_bytes: 48,000,000,000 is above memory_bytes"),
    ({"memory_bandwidth_bytes_per_s": 300.0}, "memory_bandwidth_bytes_per_s: 300 bytes/s is none of a GPU"),
    ({"memory_bytes": 24}, "memory_bytes: 24 bytes is no GPU's memory"),
    ({"peak_flops": {"bf16": 121.0}}, "peak_flops.bf16: 121 FLOP/s is none of a GPU"),
    ({"price": PRICE | {"low_usd_per_hour": 9.0}}, "price: low, median and high are not in this order"),
    ({"price": PRICE | {"date": "2999"}}, "price.date: 2999 is in the future"),
    ({"sources": {"*": {"what": "a sheet", "date": "2026-13-45"}}}, "sources.*.date: '2026-13-45'"),
    ({"name": "../../secret"}, "name: '../../secret' is no name"),
    ({"name": "x" * 5000}, "is no name"),
])  # fmt: skip
def test_what_contradicts_itself(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    with pytest.raises(KvcalcError) as raised:
        read(tmp_path, **other)
    assert said in raised.value.message


def test_what_does_not(tmp_path: Path) -> None:
    read(tmp_path, price=PRICE)
    assert [(name, fault) for name in gpu_names()[::9] for fault in faults(load_gpu(name))] == []
