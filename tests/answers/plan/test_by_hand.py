"""Plans worked by hand: two GPUs whose latencies follow a simple law, so that every answer is arithmetic.

    L4, 1 $/h:     TPOT = 20 ms + 1 ms · C         TTFT = 100 ms + 10 ms · C      C clients of a replica
    L40S, 3 $/h:   TPOT = 10 ms + 0.5 ms · C       TTFT = 100 ms + 10 ms · C

Answers of 101 tokens take TTFT + 100 · TPOT.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.answer import plan
from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.results.plan import PlanResult
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.serving import Steady

LAW = {"l4": (0.020, 0.001), "l40s": (0.010, 0.0005)}


@pytest.fixture(autouse=True)
def law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every latency by the law above; the estimate's high is half as much again."""

    def steady(speed: Performance) -> Steady:
        asked, (base, slope) = speed.clients, LAW[speed.deployed.gpu.name]
        assert asked is not None
        ttft, tpot = 0.1 + 0.01 * asked.concurrency, base + slope * asked.concurrency
        return Steady(_around(0.1), _around(ttft), _around(tpot), 0.01)

    found = cached_property(steady)
    found.__set_name__(Performance, "steady")
    monkeypatch.setattr(Performance, "steady", found)


def _around(value: float) -> Estimate:
    return Estimate(value, value, 1.5 * value)


@pytest.fixture
def prices(tmp_path: Path) -> str:
    path = tmp_path / "prices.toml"
    path.write_text('date = "2026-11"\n[usd_per_gpu_hour]\nl4 = 1\nl40s = 3\n')
    return str(path)


def answer(prices: str, tpot_s: float = 0.0401, ttft_s: float | None = None, **settings: Any) -> PlanResult:
    flags = {"gpu": ["l4", "l40s"], "tensor_parallel_size": [1], "kv_cache_dtype": ["auto"], "quantization": ["fp8"],
             "input_len": 500, "output_len": 101, "tpot_s": tpot_s, "price_file": prices}  # fmt: skip
    if ttft_s is not None:
        flags["ttft_s"] = ttft_s
    return plan("llama-3.2-1b", flags, PlanSettings(**settings)).result


def first(result: PlanResult) -> tuple[str, int, int, float | None]:
    one = result.candidates[0]
    return one.deployment["gpu"], one.replicas, one.concurrency, one.usd_per_hour


def test_one_replica(prices: str) -> None:
    """20 users: the L4 is at 40 ms with 20."""
    result = answer(prices, users=20)
    assert first(result) == ("l4", 1, 20, 1)
    assert result.candidates[0].tpot_s is not None
    assert result.candidates[0].tpot_s.value == pytest.approx(0.040)


def test_replicas_are_whole(prices: str) -> None:
    """100 users at 40 ms: 20 on an L4, 60 on an L40S: 5 for 5 $ against 2 for 6 $; by GPUs the other way round."""
    assert first(answer(prices, users=100)) == ("l4", 5, 20, 5)
    assert first(answer(prices, users=100, objective="gpus")) == ("l40s", 2, 50, 6)


def test_a_tight_target_wants_the_faster_gpu(prices: str) -> None:
    """25 ms: 5 on an L4, 30 on an L40S: 20 for 20 $ against 4 for 12 $, 25 clients each and room for 20 % more."""
    result = answer(prices, 0.02501, users=100)
    assert first(result) == ("l40s", 4, 25, 12)
    one = result.candidates[0]
    assert one.headroom == pytest.approx(0.2)
    assert one.binds == "tpot"
    assert one.next_cheaper is not None
    assert (one.next_cheaper.replicas, one.next_cheaper.concurrency, one.next_cheaper.usd_per_hour) == (3, 34, 9)
    assert one.next_cheaper.misses[0].have_s == pytest.approx(0.027)


def test_the_first_token_binds(prices: str) -> None:
    """250 ms: 15 clients on either: 7 replicas."""
    result = answer(prices, 0.0401, 0.2501, users=100)
    assert first(result) == ("l4", 7, 15, 7)
    assert result.candidates[0].binds == "ttft"


def test_a_rate(prices: str) -> None:
    """5 requests/s: 20 clients on an L4 take 4.3 s, 4.65 requests/s: two. 2.5/s are C / (2.1 + 0.11 C): 7.2 → 8."""
    assert first(answer(prices, request_rate=5.0)) == ("l4", 2, 8, 2)
    assert first(answer(prices, requests_per_day=216_000, peak_factor=2)) == ("l4", 2, 8, 2)


def test_users_who_think(prices: str) -> None:
    """8.6 s to think and 4.3 s to wait: 20 in flight on an L4 are of 60 users."""
    result = answer(prices, users=120, think_s=8.6)
    assert first(result)[:2] == ("l4", 2)
    assert first(answer(prices, users=121, think_s=8.6))[:2] in [("l4", 3), ("l40s", 1)]


def test_limits(prices: str) -> None:
    """Of the 5 L4 only 4 are there: two L40S for 6 $. 4 $ an hour are 1 $ too little."""
    there = answer(prices, users=100, gpus_available=("l4=4", "l40s=8"))
    assert first(there) == ("l40s", 2, 50, 6)
    poor = answer(prices, users=100, max_usd_per_hour=4.0)
    assert not poor.met
    assert "$1.00 an hour more" in poor.summary[0]


def test_the_worse_end(prices: str) -> None:
    """40 ms on the high are 26.7 ms: 6 on an L4, 33 on an L40S: 17 for 17 $ against 4 for 12 $."""
    assert first(answer(prices, users=100, judge="high")) == ("l40s", 4, 25, 12)


def test_the_front(prices: str) -> None:
    """100 users at 40 ms: the L4 costs less, the L40S is as fast as 35 ms; by month 730 hours."""
    result = answer(prices, users=100)
    assert [(one.deployment["gpu"], one.pareto) for one in result.candidates] == [("l4", True), ("l40s", True)]
    assert result.candidates[1].usd_per_month == 730 * 6
