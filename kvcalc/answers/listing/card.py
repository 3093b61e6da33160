"""`kvcalc models --new-card`: a model card from a config and where it came from."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from kvcalc import clock
from kvcalc.catalog.cards import read_card_text
from kvcalc.catalog.files.card_text import card_text
from kvcalc.catalog.files.jsonfile import read_json
from kvcalc.catalog.models import QUANT, existing, load_card
from kvcalc.errors import KvcalcError


@dataclass(frozen=True)
class NewCard:
    """A card's text, and the file name that belongs to it."""

    name: str
    text: str


def new_card(
    config: str, source: str | None = None, name: str | None = None, title: str | None = None, today: date | None = None
) -> NewCard:
    """The card of a config, checked by loading it.

    Args:
        config: a config.json, its folder, or a Hub id.
        source: the address where the config can be read again; of a Hub id it is known.
        name: of the card; by default the repository's or the folder's name in lower case.
        title: what to call the model; by default its name as it was written.
        today: the day to put down as the day of reading.

    Raises:
        KvcalcError: no such config, no source, or a model that kvcalc cannot read.
    """
    values, quant, hub, url = _read(config)
    written = title or (hub or _stem(Path(config))).rpartition("/")[2]
    chosen = name or written.lower().replace(" ", "-").replace("_", "-")
    address = source or url
    if address is None:
        raise KvcalcError("a card needs the source of its numbers", hint="give --source URL: where the config was read")
    text = card_text(
        values,
        name=chosen,
        title=written,
        hub=hub,
        source={
            "what": f"config.json of {hub or written}",
            "url": address,
            "date": (today or clock.today()).isoformat(),
        },
        hf_quant_config=quant,
    )
    load_card(read_card_text(text, chosen))
    return NewCard(name=chosen, text=text)


def _stem(path: Path) -> str:
    return path.resolve().parent.name if path.suffix == ".json" else path.resolve().name


def _read(config: str) -> tuple[dict[str, object], dict[str, object] | None, str | None, str | None]:
    """The config, ModelOpt's own file, the Hub id and the address."""
    path = existing(config)
    if path is not None:
        file = path / "config.json" if path.is_dir() else path
        quant = file.with_name(QUANT)
        return read_json(file, "config"), read_json(quant, QUANT) if quant.is_file() else None, None, None
    if config.count("/") != 1:
        raise KvcalcError(f"no config at {config}", hint="give a config.json, its folder, or a Hub id owner/name")
    from kvcalc.catalog.hub.fetch import Repo

    hub, _, revision = config.partition("@")
    repo = Repo(hub, revision or None)
    values = repo.json("config.json")
    if values is None:
        raise KvcalcError(f"{hub} has no config.json", hint=f"see {repo.page}/tree/main")
    return values, repo.json(QUANT), hub, repo.address("config.json")
