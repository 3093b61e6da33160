"""`kvcalc models`."""

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
        from kvcalc.render.printable import of_json

        output.write(of_json(cards.new_card(new_card, source, name=model).text))
        return
    from kvcalc.answers.listing.models import list_models, show_model
    from kvcalc.answers.question import ask
    from kvcalc.errors import KvcalcError
    from kvcalc.render.pages import models as pages
    from kvcalc.specs.checked import flag_of
    from kvcalc.specs.deployment import IDEAL

    if model is None:
        if flags:
            flag = flag_of(next(iter(flags)))
            raise KvcalcError(f"the list of models has no {flag}", hint=f"name a model: kvcalc models MODEL {flag} ...")
        output.emit(list_models(), "models", pages.list_page, pages.list_rows)
        return
    question = ask(model, flags, engine=IDEAL)
    output.emit(show_model(question.model, question.deployment), "models", pages.one_page, pages.one_rows)
