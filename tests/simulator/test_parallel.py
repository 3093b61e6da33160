"""Runs in several processes give what one process gives, to the bit."""

import pytest

from kvcalc.answers.simulate.ask import Asked, simulate_from
from kvcalc.answers.simulate.parallel import mapped
from kvcalc.errors import KvcalcError

FLAGS = {"gpu": "l40s"}
LENGTHS = {"input_len": "512", "output_len": "50"}
ASKED = [
    Asked("llama-3-8b", FLAGS, LENGTHS, {"requests": "60", "request_rate": rate, "seed": seed})
    for rate in ("2", "5")
    for seed in ("0", "1")
]


def test_processes_give_what_one_gives():
    alone, many = mapped(simulate_from, ASKED, processes=1), mapped(simulate_from, ASKED, processes=2)
    assert [report.result for report in alone] == [report.result for report in many]


def test_errors_come_back_with_their_hint():
    with pytest.raises(KvcalcError, match="no GPU") as caught:
        mapped(simulate_from, [Asked("llama-3-8b", {}, LENGTHS, {"request_rate": "1"})] * 2, processes=2)
    assert caught.value.hint


def test_a_local_ray_gives_what_one_process_gives():
    pytest.importorskip("ray")
    import ray

    try:
        found = mapped(simulate_from, ASKED[:2], ray="local")
    finally:
        ray.shutdown()
    assert [report.result for report in found] == [
        report.result for report in mapped(simulate_from, ASKED[:2], processes=1)
    ]
