"""The working of a closed loop is the loop's own: what a request misses, and what its prompt waits for."""

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import clients
from kvcalc.answers.question import ask
from kvcalc.answers.size.answer import size
from kvcalc.timing.prompts import alone_time
from kvcalc.timing.serving import mixed_loop


@pytest.mark.parametrize("engine, looks", [("vllm", None), ("trtllm", None), ("sglang", None), ("sglang", "10")])
@pytest.mark.parametrize("isl, osl, asking", [("1000", "100", "240"), ("1000", "1000", "16")])
def test_figures_of_the_loop_are_worked_out_as_shown(
    engine: str, looks: str | None, isl: str, osl: str, asking: str
) -> None:
    flags = {"gpu": "h200-sxm", "engine": engine, "input_len": isl, "output_len": osl, "concurrency": asking}
    question = ask("llama-3-8b", flags if looks is None else {**flags, "scheduler_recv_interval": looks})
    deployed = Deployed(question)
    asked = clients(deployed)
    assert asked is not None
    alone_s = alone_time(deployed.replica, asked.requests).value - deployed.replica.machine.profile.front_end_alone_s
    loop = mixed_loop(deployed.replica, asked.requests, asked.running, alone_s)[2]
    shown = {one.name: one.value for one in size(question, with_working=True).figures}
    assert shown["others' prompts missed"] == pytest.approx(loop.missed, rel=1e-12)
    assert shown["wait for a step"] == pytest.approx(loop.wait_s, rel=1e-12)
    assert shown["a step"] == pytest.approx(loop.step_s, rel=1e-12)
