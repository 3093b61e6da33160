"""Workload: what users ask of the server. None means not said."""

from typing import Annotated

from kvcalc.specs.base import Frozen
from kvcalc.specs.constraints import FromText, Within
from kvcalc.specs.deployment import Sequences, Tokens, count, tokens
from kvcalc.units import parse_seconds


def _seconds(what: str) -> FromText:
    return FromText(parse_seconds, what)


class Workload(Frozen):
    """Lengths in tokens, times in seconds."""

    context: Annotated[Tokens | None, tokens("--context")] = None
    batch: Annotated[Sequences | None, count("--batch")] = None
    input_len: Annotated[Tokens | None, tokens("--input-len")] = None
    output_len: Annotated[Tokens | None, tokens("--output-len")] = None
    concurrency: Annotated[Sequences | None, count("--concurrency")] = None
    num_prompts: Annotated[Sequences | None, count("--num-prompts")] = None
    equal_lengths: bool = False  # all requests are of the mean lengths
    prefix_hit: Annotated[Tokens | None, tokens("--prefix-hit")] = None
    ttft_s: Annotated[float | None, Within(gt=0), _seconds("--ttft")] = None
    tpot_s: Annotated[float | None, Within(gt=0), _seconds("--tpot")] = None
