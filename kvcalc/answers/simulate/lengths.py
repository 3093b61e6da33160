"""How long the requests of made traffic are: as typed, and of clients mixed, as the steady state has it.

Equal requests of clients who wait for their answers end together and come back together: their prompts march in step,
and a first token waits for all of them. Users' lengths differ.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvcalc.answers.simulate.settings import SimulateSettings, length_of
from kvcalc.errors import KvcalcError
from kvcalc.simulator.traffic import Length
from kvcalc.specs.base import Assumption
from kvcalc.timing.prompts import MIXED

WHY = "clients' lengths differ, else their prompts march in step; --equal-lengths if they do not"


class Lengths(NamedTuple):
    """Of prompts and answers; None: not typed."""

    prompt: Length | None
    output: Length | None
    assumptions: tuple[Assumption, ...] = ()


def lengths_of(
    settings: SimulateSettings, typed: Mapping[str, Any], clients: int | None, longest: int | None
) -> Lengths:
    """The lengths that are asked for.

    Args:
        settings: of the run, with spreads.
        typed: `input_len` and `output_len` as they were written.
        clients: of a closed loop; None: requests come at times of their own. Those of one client, and the turns of
            sessions, which grow, are as typed.
        longest: tokens that a request may have.

    Raises:
        KvcalcError: spread lengths that are to be equal.
    """
    prompt = length_of(typed.get("input_len"), settings.isl_sigma, "--isl")
    output = length_of(typed.get("output_len"), settings.osl_sigma, "--osl")
    plain = all(one is None or (one.low is None and one.sigma is None) for one in (prompt, output))
    if settings.equal_lengths and (settings.lengths_from is not None or not plain):
        raise KvcalcError("--equal-lengths contradicts lengths that are spread", hint="leave one of the two out")
    alone = clients is None or clients == 1 or settings.turns > 1 or settings.tool_calls > 0
    if alone or settings.equal_lengths or not plain or prompt is None or output is None:
        return Lengths(prompt, output)
    found = around(prompt.mean, output.mean, longest)
    if found == (prompt, output):
        return Lengths(prompt, output)
    named = zip(("--isl", "--osl"), found, strict=True)
    return Lengths(*found, tuple(Assumption(name=name, value=f"{one.low}-{one.high}", why=WHY) for name, one in named))


def around(prompt: float, output: float, longest: int | None) -> tuple[Length, Length]:
    """Prompts and answers of clients mixed, as far as the longest of both has room; equal where none is left.

    >>> around(1000, 100, 1650)[0], around(1000, 100, 1100)[0]
    (Length(mean=1000, low=500, high=1500, sigma=None), Length(mean=1000, low=None, high=None, sigma=None))
    """
    room = MIXED if longest is None else min(MIXED, longest / (prompt + output) - 1)
    return (mixed(prompt, room), mixed(output, room)) if room > 0 else (Length(prompt), Length(output))


def mixed(mean: float, spread: float = MIXED) -> Length:
    """Every length alike from the mean less a share of it to the mean and as much more.

    >>> mixed(1000), mixed(1)
    (Length(mean=1000, low=500, high=1500, sigma=None), Length(mean=1, low=1, high=1, sigma=None))
    """
    reach = int(mean * spread)
    return Length(mean, low=round(mean) - reach, high=round(mean) + reach)
