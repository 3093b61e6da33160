"""Capacity at every factor of the step times from one run, against a run for each."""

import pytest

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import capacities, capacity
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import RooflineTimes
from kvcalc.simulator.traffic import Length, Traffic, requests_of

TIMES = RooflineTimes(weights_s=0.01, cached_s=1e-8, row_s=1e-5, attended_s=1e-9, pair_s=1e-10)
FACTORS = (1.0, 0.8, 1.35)


@pytest.mark.parametrize("more", [{}, {"replicas": 3}, {"replicas": 2, "prefill_replicas": 1, "transfer_s": 1e-4}])
def test_one_run_gives_what_a_run_for_each_factor_gives(more):
    replica = Simulated(Settings(8, 512, 200, prefix_caching=True), TIMES, front_s=0.03, **more)
    requests = requests_of(Traffic(60, Length(300, 100, 500), Length(50, 1, 99), rate=5.0))
    found = capacities(replica, requests, FACTORS)
    assert found == pytest.approx([capacity(replica, requests, factor) for factor in FACTORS], rel=1e-9)
