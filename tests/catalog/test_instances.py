"""The clouds' machines: card, node, network and price of each."""

import pytest

from kvcalc.catalog import instances
from kvcalc.catalog.gpus import gpu_names, load_gpu
from kvcalc.catalog.instances import all_instances, find_instance
from kvcalc.errors import KvcalcError
from kvcalc.specs.dates import first_day

# As the clouds' own pages describe them: card, GPUs, network of one GPU in bytes/s.
MACHINES = [
    ("p5.48xlarge", "h100-sxm", 8, 3200e9 / 8 / 8),
    ("p4de.24xlarge", "a100-80g-sxm", 8, 400e9 / 8 / 8),
    ("p6-b200.48xlarge", "b200-sxm", 8, 3200e9 / 8 / 8),
    ("g6e.12xlarge", "l40s", 4, 100e9 / 8 / 4),
    ("g5.xlarge", "a10g", 1, 2.5e9 / 8),
    ("trn1.32xlarge", "trainium1", 16, 800e9 / 8 / 16),
    ("Standard_ND96isr_H100_v5", "h100-sxm", 8, 3200e9 / 8 / 8),
    ("a3-highgpu-8g", "h100-sxm", 8, 1000e9 / 8 / 8),
    ("a2-highgpu-2g", "a100-40g-sxm", 2, 32e9 / 8 / 2),
]


@pytest.mark.parametrize("name, gpu, gpus, network", MACHINES)
def test_a_machine_is_a_card_and_a_node(name: str, gpu: str, gpus: int, network: float) -> None:
    spec = load_gpu(name)
    assert spec.instance is not None
    assert (spec.name, spec.gpus_per_node, spec.instance.gpus) == (gpu, gpus, gpus)
    link = spec.link("network")
    assert link is not None
    assert link.bandwidth_bytes_per_s == pytest.approx(network)
    assert [one for one in spec.links if one.name != "network"] == [
        one for one in load_gpu(gpu).links if one.name != "network"
    ]


@pytest.mark.parametrize("name", ["P5.48XLARGE", "nd96isr_h100_v5", "STANDARD_ND96isr_h100_v5", "gpu_8x_h100_sxm5"])
def test_case_does_not_matter_nor_azures_first_word(name: str) -> None:
    assert load_gpu(name).name == "h100-sxm"
    assert load_gpu(name).assumptions[-1].name == "machine"


def test_nvlink_may_join_more_than_a_machine_holds() -> None:
    spec = load_gpu("a4x-highgpu-4g")
    assert spec.instance is not None
    assert (spec.instance.gpus, spec.gpus_per_node) == (4, 72)


@pytest.mark.parametrize("name", ["g6f.large", "Standard_NV6ads_A10_v5", "g4-standard-6"])
def test_a_part_of_a_card_is_refused(name: str) -> None:
    with pytest.raises(KvcalcError, match="of one") as caught:
        load_gpu(name)
    assert "--export" in caught.value.hint


def test_every_machine_holds_a_card_of_the_catalog_at_a_dated_price() -> None:
    seen = list(all_instances())
    assert len(seen) > 180
    assert len({machine.name.lower() for _, machine in seen}) == len(seen)
    for gpu, machine in seen:
        assert gpu in gpu_names()
        for offer in machine.prices.values():
            first_day(offer.date)
            assert offer.source
            # From what a fraction of a small card costs to what a GB300 does, a GPU and hour.
            assert 0.1 < offer.usd_per_hour / machine.gpus < 30, machine.name
    cheaper = [m for _, m in seen if {"on-demand", "spot"} <= m.prices.keys()]
    assert len(cheaper) > 20
    assert all(m.prices["spot"].usd_per_hour < m.prices["on-demand"].usd_per_hour for m in cheaper)


def test_no_machine_is_spelled_as_a_card() -> None:
    for gpu, machine in all_instances():
        assert load_gpu(machine.name).instance == machine, machine.name
        assert load_gpu(machine.name).name == gpu


def test_a_card_is_no_machine() -> None:
    assert find_instance("h100-sxm") is find_instance("") is None


def test_only_the_clouds_file_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = instances.read_toml
    monkeypatch.setattr(instances, "read_toml", lambda path, what: read.append(path.stem) or real(path, what))
    instances._table.cache_clear()
    find_instance("p5.48xlarge")
    find_instance("rtx 4090")
    assert read == ["aws"]
