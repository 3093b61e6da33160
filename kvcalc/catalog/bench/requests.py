"""Logs of requests: an object with `requests`, each with its tokens and the times of its arrival and its tokens."""

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from kvcalc.catalog.bench.measurement import Served
from kvcalc.errors import KvcalcError

NEEDED = ("input_tokens", "output_tokens", "arrival_s", "first_token_s", "last_token_s")


def is_log(table: Mapping[str, Any]) -> bool:
    """Whether an object is such a log."""
    some = table.get("requests")
    return isinstance(some, list) and bool(some) and isinstance(some[0], dict) and all(key in some[0] for key in NEEDED)


def served(table: Mapping[str, Any], source: str) -> Served:
    """Means over the requests that were answered; those in flight are counted from when they were scheduled.

    Raises:
        KvcalcError: none was answered.
    """
    good = [one for one in table["requests"] if one["output_tokens"] > 1 and one["last_token_s"] > one["first_token_s"]]
    if not good:
        raise KvcalcError(f"{source}: no request was answered with two tokens", hint="give a log of a run that worked")
    begun = [one.get("scheduled_s", one["arrival_s"]) for one in good]
    ended = [one["last_token_s"] for one in good]
    busy = sum(end - start for start, end in zip(begun, ended, strict=True))
    return Served(
        input_len=fmean(one["input_tokens"] for one in good),
        output_len=fmean(one["output_tokens"] for one in good),
        concurrency=max(1.0, busy / (max(ended) - min(begun))),
        num_prompts=len(good),
        ttft_s=fmean(one["first_token_s"] - start for one, start in zip(good, begun, strict=True)),
        tpot_s=fmean((one["last_token_s"] - one["first_token_s"]) / (one["output_tokens"] - 1) for one in good),
        source=source,
        together=False,
    )
