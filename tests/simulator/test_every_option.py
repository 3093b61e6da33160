"""Every policy and option: what the package computes ahead equals the plain reference, and no option is left out."""

import dataclasses
from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.simulator.drafts import Drafts
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.schedulers import sglang, sglang_singly
from kvcalc.simulator.settings import Settings
from tests.simulator.outcome import outcome, same
from tests.simulator.reference import sglang as plain_sglang
from tests.simulator.reference.run import everything as reference
from tests.simulator.workloads import everything

LOOKED_THROUGH = 400


def differences(seed, policy=None):
    replica, requests = everything(seed, policy)
    want, have = reference(replica, requests), outcome(replica, requests)
    if not replica.settings.prefix_caching:
        want["hit"] = want["queried"] = have["queried"] = 0
    for one in (want, have):
        one["gaps"].sort()
    return [name for name in want if not same(want[name], have[name])]


@settings(max_examples=100)
@given(st.integers(0, 2**40))
@example(3)  # who awaits results while the other replicas jump
@example(201)  # who comes while every replica is full goes where there is less to do then
@example(2753)  # and the router sees who has ended
@example(2803)  # all are stopped who would have stepped together with nobody
@example(900405)  # who is moved to the host and back before the next step fills a window once
@example(137)  # clients of two pools wait for whole answers
def test_equals_the_reference(seed):
    assert differences(seed) == []


@settings(max_examples=30)
@given(st.integers(0, 2**40))
@example(700204)  # who is stopped after other prompts had its newest token before them
def test_batches_of_few_prompt_tokens(seed):
    """SGLang's 16,384 tokens of a batch of prompts, which no small workload has: 50 here."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (sglang, sglang_singly):
            patch.setattr(module, "MAX_PREFILL_TOKENS", 50)
        patch.setattr(plain_sglang, "MOST", 50)
        assert differences(seed, "sglang") == []


@pytest.fixture(scope="module")
def drawn():
    """Every value that any field of a question has in many of them."""
    found = defaultdict(set)
    for seed in range(LOOKED_THROUGH):
        replica, requests = everything(seed)
        for one in (replica, replica.settings, replica.settings.drafts, requests):
            for field in dataclasses.fields(one) if one is not None else ():
                value = getattr(one, field.name)
                found[type(one), field.name].add(str(value) if not isinstance(value, (int, float, str)) else value)
    return found


# Bounds of the estimate multiply all step times, and assumptions are text.
BESIDE = {(Simulated, "low"), (Simulated, "high"), (Simulated, "assumptions")}


@pytest.mark.parametrize("kind", [Simulated, Settings, Drafts, Requests])
def test_every_option_is_drawn(drawn, kind):
    """A new option that no workload draws fails here."""
    names = {(kind, field.name) for field in dataclasses.fields(kind)} - BESIDE
    assert [name for _, name in sorted(names, key=str) if len(drawn[kind, name]) < 2] == []
    choices = {"routing": 3, "reservation": 4, "scheduler": 2, "replicas": 3, "way": 2, "policy": 2, "preemption": 2}
    assert all(len(drawn[kind, name]) >= count for name, count in choices.items() if (kind, name) in names)
