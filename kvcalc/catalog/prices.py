"""What an hour costs: the one place where a price is found. `bill` is that of a whole deployment.

List prices are of one accelerator on demand, from several sellers, dated. They move by tens of percent in months and
differ by 2 to 5 times between sellers of the same part, so the range is always shown with its date, and an old one with
a warning. A cloud's machine has its own price, and is paid whole.
"""

from datetime import date
from functools import cache
from typing import Any

from kvcalc import clock
from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, Source
from kvcalc.specs.dates import first_day
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.price import Bill, Instance, MachinePrice, Price

STALE_DAYS = 90  # a judgement: prices move by tens of percent in months


def bill(gpu: GpuSpec, deployment: Deployment, replicas: int = 1) -> Bill:
    """What a deployment's GPUs cost an hour, as far as a price is known.

    What was given (`--price`, `--price-file`) comes before the machine's own price (of the kind that `--pricing` names)
    and that before the list price. A cloud's machine is paid whole, whatever the price: its idle GPUs are billed too.

    Args:
        gpu: the accelerator, in a cloud's machine where one was named.
        deployment: its parallel sizes say how many GPUs a replica has.
        replicas: copies of the deployment, packed into the machines.

    Raises:
        KvcalcError: a price file that cannot be read; a kind of price that only machines have, without a machine.

    >>> from kvcalc.catalog.gpus import load_gpu
    >>> paid = bill(load_gpu("p5.48xlarge"), Deployment(tensor_parallel_size=4))
    >>> paid.gpus, paid.idle_gpus, round(paid.usd_per_hour, 2)
    (8, 4, 55.04)
    """
    price, why = _price(gpu, deployment)
    busy, machine = deployment.gpus * replicas, gpu.instance
    whole = 1 if machine is None else machine.gpus
    instances = -(-busy // whole)
    idle = instances * whole - busy
    assumptions, warnings = [], []
    if price is not None and why is not None:
        assumptions.append(Assumption(name="price", value=round(price.median_usd_per_hour, 6), why=why))
        warnings.append(price_warning(price))
        if deployment.price_file is not None and deployment.price_file not in price.source:
            warnings.append(f"{deployment.price_file} has no price of {gpu.name}: {price.source} is taken")
    if machine is None and price is None:
        why = "no list price of it is known: say what an hour costs, and costs are answered"
        assumptions.append(Assumption(name="price", value=None, why=why))
    if machine is not None and price is None:
        warnings.append(_unknown(machine, deployment))
    if machine is not None and idle:
        said = f"{idle} of the {instances * whole} GPUs of {instances} × {machine.name} stand idle and are billed"
        assumptions.append(Assumption(name="idle GPUs", value=idle, why=said))
        warnings.append(f"{said}: machines are paid whole")
    return Bill(
        price=price,
        gpus=instances * whole,
        idle_gpus=idle,
        instances=None if machine is None else instances,
        assumptions=tuple(assumptions),
        warnings=tuple(one for one in warnings if one is not None),
    )


def _price(gpu: GpuSpec, deployment: Deployment) -> tuple[Price | None, str | None]:
    """Of one GPU and hour, and why it was taken; None: it was given."""
    given = deployment.price_usd_per_hour
    if given is not None:
        return _flat(given, clock.today().isoformat(), "--price"), None
    if deployment.price_file is not None:
        from kvcalc.catalog.price_file import price_in

        own = price_in(deployment.price_file, gpu)
        if own is not None:
            return own, f"USD per GPU-hour, {own.source}, {own.date}"
    if gpu.instance is not None and gpu.price is None:
        return _of_machine(gpu.instance, deployment)
    if deployment.pricing != "on-demand":
        raise KvcalcError(
            f"--pricing {deployment.pricing}: only machines have such a price, and {gpu.name} is a card",
            hint="name a machine, as --gpu p5.48xlarge, or give --price",
        )
    price = price_of(gpu)
    if price is None:
        return None, None
    low, high = price.low_usd_per_hour, price.high_usd_per_hour
    return price, f"USD per GPU-hour, {price.source}, {price.date}{_age(price)}; from {low:.2f} to {high:.2f}"


def _of_machine(machine: Instance, deployment: Deployment) -> tuple[Price | None, str | None]:
    """A GPU's share of a machine's price; None where that kind of price is not known."""
    offer = machine.prices.get(deployment.pricing)
    if offer is None:
        return None, None
    where = " ".join(part for part in (machine.seller, machine.region) if part)
    price = _flat(offer.usd_per_hour / machine.gpus, offer.date, f"{deployment.pricing} price of {where}")
    of = f"USD per GPU-hour: {machine.name} costs {offer.usd_per_hour:,.2f} for its {machine.gpus} GPUs"
    sure = "" if offer.confidence == "high" else f", {offer.confidence} confidence"
    return price, f"{of}, {price.source}, {price.date}{_age(price)}{sure}; {offer.source}"


def _unknown(machine: Instance, deployment: Deployment) -> str:
    """What to say of a machine whose price is not in the catalog."""
    other = " or ".join(f"--pricing {kind}" for kind in machine.prices)
    known = f"; {other} is known" if other else ""
    return f"no {deployment.pricing} price of {machine.name} is known{known}: give one with --price"


def _flat(usd_per_hour: float, date: str, source: str) -> Price:
    return Price(
        low_usd_per_hour=usd_per_hour,
        median_usd_per_hour=usd_per_hour,
        high_usd_per_hour=usd_per_hour,
        date=date,
        source=source,
    )


def _age(price: Price) -> str:
    days = price_age_days(price)
    return f", {days} days ago" if days > 0 else ""


def price_of(gpu: GpuSpec) -> Price | None:
    """The spec's own price, else the list price of its name: lowest, median and highest over sellers. None: unknown.

    >>> from kvcalc.catalog.gpus import load_gpu
    >>> price_of(load_gpu("a10g")).source
    'on-demand list price of AWS'
    """
    if gpu.price is not None:
        return gpu.price
    offers: dict[str, float] = _table()["usd_per_hour"].get(gpu.name, {})
    if not offers:
        return None
    names = ", ".join(offers)
    return Price(
        low_usd_per_hour=min(offers.values()),
        median_usd_per_hour=_median(sorted(offers.values())),
        high_usd_per_hour=max(offers.values()),
        date=max(source.date or "" for source in price_sources(gpu).values()),
        source=f"on-demand list price of {names}" if len(offers) == 1 else f"median on-demand list price of {names}",
        sellers=len(offers),
    )


def _median(ordered: list[float]) -> float:
    """The middle one, or the mean of the middle two. (`statistics` would cost a hundredth of the whole start.)"""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def priced_names() -> frozenset[str]:
    """The accelerators that have a list price."""
    return frozenset(_table()["usd_per_hour"])


def price_sources(gpu: GpuSpec) -> dict[str, Source]:
    """Where each seller's price was read, by seller."""
    sellers = _table()["sellers"]
    return {name: Source(**sellers[name]) for name in _table()["usd_per_hour"].get(gpu.name, {})}


def price_age_days(price: Price | MachinePrice, today: date | None = None) -> int:
    """Days since the price was read; a date without a day counts from its first.

    >>> price_age_days(Price(low_usd_per_hour=1, median_usd_per_hour=1, high_usd_per_hour=1, date="2026-06", source=""),
    ...     date(2026, 7, 1))
    30
    """
    return ((today or clock.today()) - first_day(price.date)).days


def price_warning(price: Price, today: date | None = None) -> str | None:
    """What to say of a price older than 90 days; None while it is fresh."""
    age = price_age_days(price, today)
    if age <= STALE_DAYS:
        return None
    return f"the newest price is from {price.date}, {age} days ago: give today's with --price"


@cache
def _table() -> dict[str, Any]:
    return read_toml(data_dir("gpu_specs") / "prices.toml", "GPU prices")
