"""`kvcalc gpus`."""

from typing import Annotated

from kvcalc.cli import complete
from kvcalc.cli.flags import OUTPUT, Flag
from kvcalc.cli.options import Flags, Positional, takes
from kvcalc.cli.output import Output
from kvcalc.errors import KvcalcError

GpuArgument = Annotated[str | None, Positional("GPU", "One of them, in full.", complete.gpus)]
CATALOG = (
    Flag("match", ("--match",), "WORDS", "Only those with these words: 'amd desktop', 'hopper'.", "Choice"),
    Flag("machines", ("--machines",), None, "The clouds' machines in place of the cards.", "Choice", kind="bool"),
    Flag("export", ("--export",), "GPU", "Its TOML file, to start an own spec from.", "Choice"),
)


@takes(CATALOG, OUTPUT)
def command(flags: Flags, gpu: GpuArgument = None) -> None:
    """The GPU specs: all in a list, or one with the source of each number.

    \b
      kvcalc gpus --match 'nvidia laptop'
      kvcalc gpus --machines --match 'aws h100'
      kvcalc gpus h100-sxm
      kvcalc gpus --export 'rtx 4090' -o my-card.toml
    """
    match, export, machines = flags.pop("match", ""), flags.pop("export", None), flags.pop("machines", False)
    if export and (gpu or match or machines or flags.keys() - {"output"}):
        raise KvcalcError("--export writes one TOML file", hint="give it a name and, at most, -o FILE")
    output = Output(flags)
    if export:
        from kvcalc.answers.listing.gpus import export_gpu

        output.write(export_gpu(export))
        return
    from kvcalc.answers.listing.ask import gpus_from
    from kvcalc.render.pages import gpus as pages
    from kvcalc.results.gpus import GpuReport, GpusReport

    report = gpus_from(gpu, match, machines)
    if isinstance(report, GpuReport):
        output.emit(report, pages.one_page, pages.one_rows)
    elif isinstance(report, GpusReport):
        output.emit(report, pages.list_page, pages.list_rows)
    else:
        output.emit(report, pages.machines_page, pages.machines_rows)
