"""`kvcalc gpus --machines`: the clouds' machines that kvcalc knows, and what they cost."""

from kvcalc.catalog.instances import all_instances
from kvcalc.errors import KvcalcError
from kvcalc.results.gpus import MachineRow, MachinesReport, MachinesResult
from kvcalc.specs.price import Instance


def list_machines(match: str = "") -> MachinesReport:
    """The machines of the clouds in one line each.

    Args:
        match: words that must all stand in a machine's name, its seller, its region or its accelerator.

    Raises:
        KvcalcError: no machine has all the words.
    """
    every = list(all_instances())
    found = [(gpu, machine) for gpu, machine in every if _matches(gpu, machine, match)]
    if not found:
        raise KvcalcError(
            f"--match: no machine has {match!r} in its name, seller or accelerator",
            hint="fewer words; `kvcalc gpus --machines` lists them all",
        )
    rows = tuple(_row(gpu, machine) for gpu, machine in found)
    result = MachinesResult(machines=rows, left_out=len(every) - len(rows))
    return MachinesReport(inputs={"machines": True, **({"match": match} if match else {})}, result=result)


def _matches(gpu: str, machine: Instance, match: str) -> bool:
    text = f"{machine.name} {machine.seller} {machine.region} {gpu}".lower()
    return all(word in text for word in match.lower().split())


def _row(gpu: str, machine: Instance) -> MachineRow:
    paid = machine.prices.get("on-demand")
    prices = {kind: offer.usd_per_hour for kind, offer in machine.prices.items()}
    return MachineRow(
        name=machine.name,
        seller=machine.seller,
        region=machine.region,
        gpu=gpu,
        gpus=machine.gpus,
        network_bandwidth_bytes_per_s=machine.network_bandwidth_bytes_per_s,
        on_demand_usd_per_hour=prices.get("on-demand"),
        spot_usd_per_hour=prices.get("spot"),
        reserved_usd_per_hour=prices.get("reserved"),
        price_date=None if paid is None else paid.date,
    )
