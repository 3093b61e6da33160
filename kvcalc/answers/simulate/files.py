"""What is written beside the answer: every request as a row, and the run as a Chrome trace."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from kvcalc.answers.simulate.figures import Latencies

COLUMNS = ("request", "sent_s", "input_tokens", "output_tokens", "first_token_s", "last_token_s", "ttft_s", "tpot_s",
           "e2e_s")  # fmt: skip
MOST_EVENTS = 20_000  # requests of a timeline: what a browser still opens
MICROSECONDS = 1e6


def requests_csv(one: Latencies) -> str:
    """One row a request, in base units; empty where there is no such time."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    seen = one.outcome.seen
    for i, (ttft, tpot, e2e) in enumerate(zip(one.ttft.tolist(), one.tpot.tolist(), one.e2e.tolist(), strict=True)):
        times = (seen.sent_s[i], seen.first_s[i], seen.last_s[i])
        spaced = "" if tpot != tpot else tpot
        writer.writerow((i, times[0], one.requests.prompt[i], one.requests.output[i], *times[1:], ttft, spaced, e2e))
    return file.getvalue()


def chrome_trace(one: Latencies) -> str:
    """The run for chrome://tracing and Perfetto: each request waits and computes its prompt, then decodes.

    Source: Trace Event Format (Google), complete events `X` and counters `C`.
    """
    events = [*_requests(one), *_counters(one)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _requests(one: Latencies) -> Iterator[dict[str, Any]]:
    seen = one.outcome.seen
    rows: list[float] = []  # when each row of the picture is free again
    for i in sorted(range(len(one.requests)), key=seen.sent_s.__getitem__)[:MOST_EVENTS]:
        begin, first, last = seen.sent_s[i], seen.first_s[i], seen.last_s[i]
        row = next((number for number, free in enumerate(rows) if free <= begin), len(rows))
        if row == len(rows):
            rows.append(last)
        rows[row] = last
        tokens = {"input_tokens": one.requests.prompt[i], "output_tokens": one.requests.output[i]}
        for name, start, end in (("first token", begin, first), ("decode", first, last)):
            yield {"name": name, "cat": "request", "ph": "X", "pid": 1, "tid": row, "ts": start * MICROSECONDS,
                   "dur": (end - start) * MICROSECONDS, "args": {"request": i, **tokens}}  # fmt: skip


def _counters(one: Latencies) -> Iterator[dict[str, Any]]:
    for moment in one.outcome.use.samples:
        for name in ("running", "waiting", "blocks"):
            yield {"name": name, "ph": "C", "pid": 1, "ts": moment.time_s * MICROSECONDS,
                   "args": {name: getattr(moment, name)}}  # fmt: skip
