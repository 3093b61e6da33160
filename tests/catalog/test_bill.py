"""The bill of a deployment: whole machines, one price, where it came from."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc import clock
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.prices import bill
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment


@pytest.fixture(autouse=True)
def _day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "today", lambda: date(2026, 8, 1))


def test_a_machine_is_paid_whole() -> None:
    paid = bill(load_gpu("p5.48xlarge"), Deployment(tensor_parallel_size=2))
    assert (paid.gpus, paid.idle_gpus, paid.instances) == (8, 6, 1)
    assert paid.usd_per_hour == pytest.approx(55.04)  # AWS us-east-1, July 2026
    assert [one.name for one in paid.assumptions] == ["price", "idle GPUs"]
    assert "12 days ago" in paid.assumptions[0].why
    assert "AWS us-east-1" in paid.assumptions[0].why
    assert any("stand idle" in said for said in paid.warnings)


def test_a_card_is_paid_by_the_gpu() -> None:
    paid = bill(load_gpu("l40s"), Deployment(tensor_parallel_size=2, data_parallel_size=2))
    assert (paid.gpus, paid.idle_gpus, paid.instances) == (4, 0, None)
    assert paid.price is not None
    assert paid.usd_per_hour == pytest.approx(4 * paid.price.median_usd_per_hour)


def test_the_same_price_is_given_for_every_gpu_of_the_machine() -> None:
    paid = bill(load_gpu("p5.48xlarge"), Deployment(tensor_parallel_size=2, price_usd_per_hour=2.0))
    assert paid.usd_per_hour == pytest.approx(8 * 2.0)
    assert [one.name for one in paid.assumptions] == ["idle GPUs"]  # what was given is not assumed


def test_how_a_machine_is_paid() -> None:
    gpu = load_gpu("a3-highgpu-8g")
    spot = bill(gpu, Deployment(tensor_parallel_size=8, pricing="spot"))
    assert spot.usd_per_hour == pytest.approx(50.6095, rel=1e-5)
    assert "spot price of GCP us-central1" in spot.assumptions[0].why
    block = bill(load_gpu("p5e.48xlarge"), Deployment(tensor_parallel_size=8, pricing="reserved"))
    assert block.usd_per_hour == pytest.approx(47.76)


def test_an_unknown_price_is_said_not_taken_from_elsewhere() -> None:
    paid = bill(load_gpu("p5e.48xlarge"), Deployment(tensor_parallel_size=8))
    assert paid.price is paid.usd_per_hour is None
    assert paid.warnings == (
        "no on-demand price of p5e.48xlarge is known; --pricing reserved is known: give one with --price",
    )
    with pytest.raises(KvcalcError, match="only machines have such a price"):
        bill(load_gpu("h100-sxm"), Deployment(pricing="spot"))


@given(st.integers(1, 64), st.integers(1, 16), st.sampled_from(["p5.48xlarge", "g6e.12xlarge", "g5.xlarge", "l4"]))
def test_no_gpu_works_unpaid_and_no_machine_is_paid_unused(gpus: int, replicas: int, name: str) -> None:
    gpu, deployment = load_gpu(name), Deployment(data_parallel_size=gpus)
    paid = bill(gpu, deployment, replicas)
    whole = gpu.instance.gpus if gpu.instance else 1
    assert paid.gpus - paid.idle_gpus == gpus * replicas
    assert paid.gpus % whole == 0
    assert 0 <= paid.idle_gpus < whole


def prices(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_price_file_of_the_users(tmp_path: Path) -> None:
    path = prices(
        tmp_path / "mine.toml",
        'date = 2026-07-31\nsource = "our contract"\n'
        '[usd_per_gpu_hour]\n"H100 SXM" = 2.1\n[usd_per_instance_hour]\n"p5.48xlarge" = 40.0\n',
    )
    machine = bill(load_gpu("p5.48xlarge"), Deployment(tensor_parallel_size=4, price_file=path))
    assert machine.usd_per_hour == pytest.approx(40.0)
    assert "our contract" in machine.assumptions[0].why
    card = bill(load_gpu("h100-sxm"), Deployment(tensor_parallel_size=4, price_file=path))
    assert card.usd_per_hour == pytest.approx(4 * 2.1)
    # A machine without a price of its own takes the card's, for all its GPUs.
    other = bill(load_gpu("a3-highgpu-8g"), Deployment(price_file=path))
    assert other.usd_per_hour == pytest.approx(8 * 2.1)
    # What the file does not name has the list price; --price comes before the file.
    assert bill(load_gpu("l40s"), Deployment(price_file=path)).price == bill(load_gpu("l40s"), Deployment()).price
    assert bill(load_gpu("h100-sxm"), Deployment(price_file=path, price_usd_per_hour=1)).usd_per_hour == 1


@pytest.mark.parametrize(
    "text, said",
    [
        ("[usd_per_hour]\nh100-sxm = 2\n", "usd_per_hour: unknown field"),
        ("[usd_per_gpu_hour]\nh100-sxm = 0\n", "usd_per_gpu_hour.h100-sxm"),
        ('[usd_per_gpu_hour]\nh100-sxm = "two"\n', "usd_per_gpu_hour.h100-sxm"),
        ('date = "soon"\n', "date"),
        ("usd = = 1", "not valid TOML"),
    ],
)
def test_a_wrong_price_file_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    path = prices(tmp_path / "bad.toml", text)
    with pytest.raises(KvcalcError) as caught:
        bill(load_gpu("h100-sxm"), Deployment(price_file=path))
    assert said in caught.value.message
    assert "bad.toml" in caught.value.message


def test_no_price_file() -> None:
    with pytest.raises(KvcalcError, match="cannot read"):
        bill(load_gpu("h100-sxm"), Deployment(price_file="/nowhere/prices.toml"))


def test_a_price_in_the_users_own_spec_holds_in_a_machine_too() -> None:
    spec = load_gpu("p5.48xlarge")
    own = replace(spec, price=bill(load_gpu("l4"), Deployment()).price)
    assert bill(own, Deployment()).price == own.price
