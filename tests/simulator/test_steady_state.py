"""A closed loop run event by event is the steady state of `size` and `plan`, whatever the deployment and load."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.lengths import mixed
from kvcalc.answers.simulate.machine import simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.simulator.traffic import Traffic, requests_of
from kvcalc.timing.prompts import Requests
from kvcalc.timing.serving import steady_state

WAVES = 30
MACHINES = (
    ("llama-3-8b", {"gpu": "l40s"}),
    ("llama-3-8b", {"gpu": "h100-sxm", "max_num_batched_tokens": "1024"}),
    ("llama-3-70b", {"gpu": "h200-sxm", "tensor_parallel_size": "4", "engine_version": "0.12"}),
    ("qwen3-30b-a3b", {"gpu": "h100-sxm", "quantization": "fp8"}),
    ("llama-3.3-70b", {"gpu": "b200-sxm", "quantization": "fp8", "kv_cache_dtype": "fp8"}),
    ("llama-3-8b", {"gpu": "h100-sxm", "engine": "trtllm"}),
    ("llama-3-8b", {"gpu": "h100-sxm", "engine": "sglang"}),
    ("llama-3.3-70b", {"gpu": "b200-sxm", "quantization": "fp8", "engine": "sglang"}),
)


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(MACHINES), st.integers(100, 5000), st.integers(100, 800), st.integers(1, 48))
def test_clients_get_what_the_steady_state_says(
    machine: tuple[str, dict[str, str]], prompt: int, output: int, clients: int
) -> None:
    model, flags = machine
    deployed = Deployed(ask(model, {**flags, "concurrency": str(clients)}))
    count = max(WAVES * clients, 300)
    requests = requests_of(Traffic(count, mixed(prompt), mixed(output), clients=clients))
    means = float(np.mean(requests.prompt)), float(np.mean(requests.output))
    found = Latencies(run(simulated(deployed, SimulateSettings(), sum(means)), requests), requests)
    # A steady state stops nobody, and near the end of what steps hold everything hangs on the order of lengths.
    assume(not found.outcome.counts.preemptions and clients * prompt < 0.7 * output * deployed.max_num_batched_tokens)
    loop = steady_state(deployed.replica, Requests(*means, waves=count / clients), clients)
    assert loop.tpot is not None
    assert found.tpot.mean() == pytest.approx(loop.tpot.value, rel=0.02)
    assert found.e2e.mean() == pytest.approx(loop.whole_s(means[1]), rel=0.03)  # by Little's law the throughput
