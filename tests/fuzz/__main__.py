"""All readers in turn, by hand: `python -m tests.fuzz --minutes 10 [--reader configs] [--seed 1000000]`."""

import argparse
import os
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz import test_configs, test_ggufs, test_lines, test_logs, test_safetensors, test_served, test_tomls
from tests.fuzz import test_traces as requests
from tests.fuzz.trial import Trial, outcome

READERS: dict[str, Trial] = {
    "configs": test_configs.trial, "ggufs": test_ggufs.trial, "safetensors": test_safetensors.trial,
    "models": test_tomls.model, "gpus": test_tomls.gpu, "budgets": test_tomls.budget, "prices": test_tomls.prices,
    "logs": test_logs.trial, "commands": test_served.trial, "traces": requests.trace, "results": requests.results,
    "lines": test_lines.trial,
}  # fmt: skip
AT_ONCE = 50


def main() -> None:
    """Fuzz until the time is over; print faults as they come, and the counts."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=1)
    asked.add_argument("--reader", action="append", choices=READERS)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", NO_COLOR="1", COLUMNS="80")
    counts: dict[str, Counter[str]] = {name: Counter() for name in given.reader or READERS}
    end, seed, seen = time.monotonic() + 60 * given.minutes, given.seed, set[str]()
    with tempfile.TemporaryDirectory() as place:
        while time.monotonic() < end:
            for name, found in counts.items():
                for one in range(seed, seed + AT_ONCE):
                    said = outcome(READERS[name], one, Path(place))
                    found[said if not said.startswith("!") else "fault"] += 1
                    if said.startswith("!") and (name, said[:80]) not in seen:
                        seen.add((name, said[:80]))
                        print(f"{name} seed {one}: {said[:400]}", flush=True)
            seed += AT_ONCE
    for name, found in counts.items():
        print(f"{name:12} {sum(found.values()):9,}  " + ", ".join(f"{n:,} {what}" for what, n in found.most_common()))
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB, next seed {seed}")


if __name__ == "__main__":
    main()
