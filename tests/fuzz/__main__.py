"""All readers in turn, by hand: `python -m tests.fuzz --minutes 10 [--reader configs] [--seed 1000000]`.

Nineteen of twenty trials of a reader only read, which takes a millisecond; the twentieth asks a command about what it
has read.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import test_configs, test_ggufs, test_lines, test_logs, test_safetensors, test_served, test_tomls
from tests.fuzz import test_traces as requests
from tests.fuzz import test_words as words
from tests.fuzz.trial import Trial, outcome


class Reader(NamedTuple):
    """A command asked about a spoilt input, the same input only read, or one of the two."""

    asked: Trial | None
    read: Trial | None
    at_once: int = 100  # trials of a round: fewer of those that take long


READERS = {
    "configs": Reader(test_configs.trial, test_configs.read),
    "ggufs": Reader(test_ggufs.trial, test_ggufs.read),
    "safetensors": Reader(test_safetensors.trial, test_safetensors.read),
    "models": Reader(test_tomls.model, test_tomls.read_model, 50),
    "gpus": Reader(test_tomls.gpu, test_tomls.read_gpu),
    "budgets": Reader(test_tomls.budget, test_tomls.read_budgets),
    "prices": Reader(test_tomls.prices, test_tomls.read_price_file, 200),
    "logs": Reader(test_logs.trial, test_logs.read, 200),
    "commands": Reader(test_served.trial, test_served.read),
    "traces": Reader(requests.trace, requests.read_traces, 200),
    "results": Reader(requests.results, requests.read_result_files, 200),
    "quantities": Reader(None, words.quantity, 300),
    "names": Reader(None, words.name),
    "expressions": Reader(None, words.expression, 300),
    "lines": Reader(test_lines.trial, None, 40),
}
ASKED = 20  # one trial of so many asks a command
MOST_BYTES = 2**30  # of data of the whole process: more is a MemoryError, which is a fault

Counts = dict[str, Counter[str]]


def main() -> None:
    """Fuzz until the time is over; print faults as they come, and the counts."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=1)
    asked.add_argument("--reader", action="append", choices=READERS)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--counts", type=Path, help="a JSON file that this run's counts are added to")
    given = asked.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", NO_COLOR="1", COLUMNS="80")
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    end, seed, seen = time.monotonic() + 60 * given.minutes, given.seed, set[tuple[str, str]]()
    counts: Counts = {name: Counter() for name in given.reader or READERS}
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < end:
            for name, found in counts.items():
                for one in range(seed, seed + READERS[name].at_once):
                    kind, said = tried(READERS[name], one, Path(place))
                    found["fault" if said.startswith("!") else f"{kind}: {said}"] += 1
                    if said.startswith("!") and (name, said[:80]) not in seen:
                        seen.add((name, said[:80]))
                        print(f"{name} seed {one}, {kind}: {said[:400]}", flush=True)
            seed += max(reader.at_once for reader in READERS.values())
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{sum(map(Counter.total, counts.values())):,} trials, {largest:,.0f} MiB at most, next seed {seed}")
    if given.counts:
        counts = added(given.counts, counts, largest)
    for name, found in counts.items():
        print(f"{name:12} {found.total():9,}  " + ", ".join(f"{n:,} {what}" for what, n in found.most_common()))


def tried(reader: Reader, seed: int, place: Path) -> tuple[str, str]:
    """Whether a command was asked or the input only read, and how that ended."""
    whole = reader.read is None or (reader.asked is not None and seed % ASKED == 0)
    trial = reader.asked if whole else reader.read
    assert trial is not None
    return "asked" if whole else "read", outcome(trial, seed, place)


def added(path: Path, counts: Counts, largest_mib: float) -> Counts:
    """The counts of earlier runs and of this one, kept in the file; the largest memory of all beside them."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"counts": {}, "largest_mib": 0}
    names = [name for name in READERS if name in counts or name in kept["counts"]]
    both = {name: Counter(kept["counts"].get(name, {})) + counts.get(name, Counter()) for name in names}
    largest = max(kept["largest_mib"], largest_mib)
    path.write_text(json.dumps({"largest_mib": round(largest), "counts": both}, indent=1), encoding="utf-8")
    return both


if __name__ == "__main__":
    main()
