"""`kvcalc gpus`."""

from typing import Annotated

import typer

from kvcalc.cli import complete
from kvcalc.cli.flags import OUTPUT
from kvcalc.cli.options import Flags, takes
from kvcalc.cli.output import Output

GpuArgument = Annotated[
    str | None,
    typer.Argument(metavar="GPU", help="One of them, in full.", show_default=False, autocompletion=complete.gpus),
]


@takes(OUTPUT)
def command(flags: Flags, gpu: GpuArgument = None) -> None:
    """The GPU specs: all in a list, or one with the source of each number.

    \b
      kvcalc gpus
      kvcalc gpus h100-sxm
    """
    output = Output(flags)
    from kvcalc.answers.listing.gpus import list_gpus, show_gpu
    from kvcalc.render.pages import gpus as pages

    if gpu is None:
        output.emit(list_gpus(), "gpus", pages.list_page, pages.list_rows)
    else:
        output.emit(show_gpu(gpu), "gpus", pages.one_page, pages.one_rows)
