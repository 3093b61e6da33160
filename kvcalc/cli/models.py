"""`kvcalc models`."""

from typing import Annotated

import typer

from kvcalc.cli.flags import NUMBERS, OUTPUT
from kvcalc.cli.options import Flags, takes
from kvcalc.cli.output import Output

ModelArgument = Annotated[
    str | None, typer.Argument(metavar="MODEL", help="One of them, in full; or any model.", show_default=False)
]


@takes(NUMBERS, OUTPUT)
def command(flags: Flags, model: ModelArgument = None) -> None:
    """The model cards: all in a list, or one model in full: parameters, weights, cache and their sources.

    \b
      kvcalc models
      kvcalc models deepseek-v3
      kvcalc models ./config.json
    """
    output = Output(flags)
    from kvcalc.answers.models import list_models, show_model
    from kvcalc.answers.question import ask
    from kvcalc.render.pages import models as pages

    if model is None:
        output.emit(list_models(), "models", pages.list_page, pages.list_rows)
        return
    question = ask(model, flags, engine="ideal")
    output.emit(show_model(question.model, question.deployment), "models", pages.one_page, pages.one_rows)
