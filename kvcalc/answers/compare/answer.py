"""`kvcalc compare`: the same question over several values of any flag, ranked."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from kvcalc.answers.common_assumptions import Name, gathered, words
from kvcalc.answers.compare.cases import Case, cases_of, said_by
from kvcalc.answers.explain import figure_of, labelled
from kvcalc.answers.pasted import Pasted
from kvcalc.answers.question import Loader, ask
from kvcalc.answers.size.answer import size
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure
from kvcalc.results.compare import CompareReport, CompareResult, CompareRow
from kvcalc.results.data import data_of
from kvcalc.results.size import FIT_ORDER, SizeResult
from kvcalc.specs.base import Assumption, field_names
from kvcalc.specs.checked import checked, flag_of
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.load import Workload


class _Said(NamedTuple):
    """What the rows say beside their figures."""

    assumptions: list[tuple[Name, tuple[Assumption, ...]]]
    warnings: dict[str, None]
    errors: list[KvcalcError]
    figures: list[Figure]


def compare(models: Sequence[str], flags: Mapping[str, Any], with_working: bool = False) -> CompareReport:
    """One row for every combination of models and repeated flags; combinations that cannot be say why.

    `with_working`: with the figures behind `--explain`, of every row.

    Raises:
        KvcalcError: a name or a value that no combination could make good, too many combinations, or none that can be.
    """
    cases = cases_of(models, flags)
    choices, varying = cases.choices, cases.varying
    load = cache(partial(load_model, strict=bool(flags.get("strict"))))
    _refuse_nonsense(choices, load)
    warnings = dict.fromkeys((*cases.warnings, *(said for one in cases.commands for said in one.warnings)))
    said = _Said([], warnings, [], [])
    rows = sorted(_rows(cases.rows, varying, said, load, with_working), key=_rank)
    if len(said.errors) == len(cases.rows):
        raise said.errors[0]
    bests = tuple(_bests(rows))
    best = next(row.size for row in rows if row.size is not None)
    return CompareReport(
        inputs={
            "models": choices["model"],
            **{flag_of(name)[2:]: values for name, values in choices.items() if name != "model"},
            **_served(cases.commands),
        },
        result=CompareResult(
            fits=best.fits,
            fit=best.fit,
            reason=best.reason,
            varying=tuple("model" if name == "model" else flag_of(name)[2:] for name in varying),
            rows=tuple(_flat(row) for row in rows),
            summary=tuple(_summary(rows, bests)),
        ),
        figures=(*said.figures, *(one.figure for one in bests)) if with_working else (),
        assumptions=(*gathered(said.assumptions), *said_by(cases.commands)),
        warnings=tuple(warnings),
    )


def _refuse_nonsense(choices: Mapping[str, list[Any]], load: Loader) -> None:
    """A value that no combination could make good is an error, and no row."""
    for name in choices["model"]:
        load(name)
    for name in choices.get("gpu", ()):
        load_gpu(name)
    for field, values in choices.items():
        for value in values:
            _resolved(field, value)


def _resolved(field: str, value: Any) -> Any:
    """The value that a flag was given, in its base unit: 8,192 of 8K."""
    if field in ("model", "gpu"):
        return value
    spec = Workload if field in field_names(Workload) else Deployment
    return getattr(checked(spec, {field: value}), field)


def _served(commands: Sequence[Pasted]) -> dict[str, Any]:
    """The commands, in the order in which they were pasted; one alone says what every other command says of one."""
    if len(commands) == 1:
        return dict(commands[0].inputs)
    return {"serve": [one.inputs["serve"] for one in commands]} if commands else {}


def _rows(
    cases: Sequence[Case],
    varying: tuple[str, ...],
    said: _Said,
    load: Loader,
    with_working: bool,
) -> Iterator[CompareRow]:
    for case in cases:
        one = dict(case.flags)
        varies = {"model" if name == "model" else flag_of(name)[2:]: one.get(name) for name in varying}
        at = {name: _resolved(name, one[name]) if name in one else None for name in varying}
        model = one.pop("model")
        try:
            report = size(ask(model, one, load=load), with_advice=False, with_working=with_working)
        except KvcalcError as error:
            said.errors.append(error)
            yield CompareRow(varies=varies, at=at, size=None, error=error.message)
            continue
        said.assumptions.append((varies, report.assumptions))
        said.warnings.update(dict.fromkeys(report.warnings))
        said.figures.extend(labelled(words(varies), report.figures))
        yield CompareRow(varies=varies, at=at, size=report.result)


def _rank(row: CompareRow) -> tuple[int, float, float]:
    """What fits first; then the cheapest per token; then the fastest."""
    if row.size is None:
        return (len(FIT_ORDER), 0.0, 0.0)
    cost, speed = _cost(row.size), _speed(row.size)
    return (FIT_ORDER.index(row.size.fit), cost if cost is not None else float("inf"), -(speed or 0.0))


def _cost(size: SizeResult) -> float | None:
    found = size.headline
    return None if found is None or (usd := found.usd_per_million_output_tokens) is None else usd.value


def _speed(size: SizeResult) -> float | None:
    return None if size.headline is None else size.headline.output_tokens_per_s.value


def _flat(row: CompareRow) -> dict[str, Any]:
    figures = {} if row.size is None else data_of(row.size)
    return {**row.at, **figures, **row.at, "varies": dict(row.varies), "error": row.error}


class _Best(NamedTuple):
    """The best row of some figure against the next."""

    text: str
    figure: Figure


def _summary(rows: Sequence[CompareRow], bests: Sequence[_Best]) -> Iterator[str]:
    """In words: what is cheapest, fastest and roomiest, and by how much over the next. A bound beats no estimate."""
    good = [row for row in rows if row.size is not None and row.size.fits]
    if not good:
        yield "Nothing fits."
        return
    if len(rows) > len(good):
        yield f"{len(good)} of {len(rows)} fit."
    yield from (one.text for one in bests)


def _bests(rows: Sequence[CompareRow]) -> Iterator[_Best]:
    """Of what fits: the cheapest, the fastest and the roomiest."""
    good = [row for row in rows if row.size is not None and row.size.fits]
    timed = [row for row in good if row.size is not None and row.size.estimate is not None] or good
    yield from _best(timed, "cheaper per token", _cost, lowest=True)
    yield from _best(timed, "faster in tokens/s", _speed, lowest=False)
    yield from _best(good, "roomier in tokens of cache", lambda s: s.kv_cache_size_tokens, lowest=False)


def _best(rows: Sequence[CompareRow], word: str, figure: Any, lowest: bool) -> Iterator[_Best]:
    known = [(value, row) for row in rows if row.size is not None and (value := figure(row.size))]
    if len(known) < 2:
        return
    known.sort(key=lambda pair: pair[0], reverse=not lowest)
    (best, first), (next_value, second) = known[0], known[1]
    inputs, formula = {"best": best, "next": next_value}, "next / best" if lowest else "best / next"
    name = f"{words(first.varies)} is so many times {word} than {words(second.varies)}"
    found = figure_of(name, formula, inputs, "1", "arithmetic")
    if found.value is not None and found.value > 1.005:
        yield _Best(f"{words(first.varies)} is {found.value:.2f} times {word} than {words(second.varies)}.", found)
