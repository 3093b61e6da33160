"""`kvcalc models`."""

from pathlib import Path
from typing import Annotated

from kvcalc.cli import complete
from kvcalc.cli.flags import NUMBERS, OUTPUT, STRICT, Flag
from kvcalc.cli.options import Flags, Positional, takes
from kvcalc.cli.output import Output

ModelArgument = Annotated[str | None, Positional("MODEL", "One of them, in full; or any model.", complete.models)]
CARD = (
    Flag("new_card", ("--new-card",), "CONFIG", "Write the card of a config.json, a folder or a Hub id.", "Card"),
    Flag("source", ("--source",), "URL", "With --new-card: where the config can be read again.", "Card"),
)


@takes(CARD, NUMBERS, STRICT, OUTPUT)
def command(flags: Flags, model: ModelArgument = None) -> None:
    """The model cards: all in a list, or one model in full: parameters, weights, cache and their sources.

    \b
      kvcalc models
      kvcalc models deepseek-v3
      kvcalc models ./config.json
      kvcalc models --new-card ./config.json --source https://... -o mine.toml
    """
    output = Output(flags)
    new_card, source = flags.pop("new_card", None), flags.pop("source", None)
    if new_card is not None:
        from kvcalc.answers.listing import card as cards
        from kvcalc.results.data import escaped

        path = Path(output.path or "")
        name = model or (path.stem if path.suffix == ".toml" else None)  # a card is named as its file
        output.write(escaped(cards.new_card(new_card, source, name=name).text))
        return
    from kvcalc.answers.listing.ask import model_from, models_from
    from kvcalc.render.pages import models as pages

    if model is None:
        output.emit(models_from(flags), pages.list_page, pages.list_rows)
    else:
        output.emit(model_from(model, flags), pages.one_page, pages.one_rows)
