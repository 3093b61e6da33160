"""The search against trying everything, and what must hold of any search."""

from functools import cache
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.answer import plan
from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.answers.plan.space import BUDGETS, SEQUENCES
from kvcalc.answers.question import ask
from kvcalc.catalog.models import load_model
from kvcalc.catalog.prices import bill
from kvcalc.errors import KvcalcError

SETTINGS: list[dict[str, object]] = [
    {},
    *({"max_num_seqs": value} for value in SEQUENCES),
    *({"max_num_batched_tokens": value} for value in BUDGETS),
]
SPACE = [
    {"gpu": gpu, "tensor_parallel_size": tp, **other} for gpu in ("l4", "l40s") for tp in (1, 2) for other in SETTINGS
]
FLAGS = {"gpu": ["l4", "l40s"], "tensor_parallel_size": [1, 2], "quantization": ["fp8"], "kv_cache_dtype": ["auto"]}
MODEL = "llama-3.1-8b"
load = cache(load_model)


@cache
def deployed(index: int, isl: int, osl: int) -> Deployed:
    return Deployed(ask(MODEL, {**SPACE[index], "quantization": "fp8", "input_len": isl, "output_len": osl}, load=load))


def exhaustive(isl: int, osl: int, users: int, ttft_s: float, tpot_s: float) -> float:
    """Every deployment with every number of replicas: the lowest bill; without end where nothing keeps the targets."""
    best = inf
    for index in range(len(SPACE)):
        one = deployed(index, isl, osl)
        for replicas in range(1, users + 1):
            found = Performance(one, concurrency=-(-users // replicas)).serving
            assert found is not None
            assert found.tpot_s is not None
            if found.ttft_s.value <= ttft_s and found.tpot_s.value <= tpot_s:
                best = min(best, bill(one.gpu, one.deployment, replicas).usd_per_hour or inf)
                break
    return best


def planned(isl: int, osl: int, users: int, ttft_s: float, tpot_s: float) -> float:
    flags = {**FLAGS, "input_len": isl, "output_len": osl, "ttft_s": ttft_s, "tpot_s": tpot_s}
    try:
        result = plan(MODEL, flags, PlanSettings(users=users)).result
    except KvcalcError:
        return inf
    return result.candidates[0].usd_per_hour or inf if result.met else inf


asked = st.tuples(
    st.sampled_from([(500, 100), (3000, 300)]),
    st.integers(1, 40),
    st.sampled_from([0.2, 0.5, 2.0, 20.0]),
    st.sampled_from([0.015, 0.025, 0.05, 0.1]),
)


@given(asked)
@settings(max_examples=8, deadline=None)
def test_no_exhaustive_search_is_cheaper(question: tuple[tuple[int, int], int, float, float]) -> None:
    (isl, osl), users, ttft_s, tpot_s = question
    assert planned(isl, osl, users, ttft_s, tpot_s) == exhaustive(isl, osl, users, ttft_s, tpot_s)


@given(asked, st.integers(1, 300))
@settings(max_examples=6, deadline=None)
def test_more_load_never_costs_less(question: tuple[tuple[int, int], int, float, float], more: int) -> None:
    (isl, osl), users, ttft_s, tpot_s = question
    assert planned(isl, osl, users, ttft_s, tpot_s) <= planned(isl, osl, users + more, ttft_s, tpot_s)


@given(asked, st.floats(1.0, 5.0))
@settings(max_examples=6, deadline=None)
def test_a_looser_target_never_costs_more(question: tuple[tuple[int, int], int, float, float], factor: float) -> None:
    (isl, osl), users, ttft_s, tpot_s = question
    tight = planned(isl, osl, users, ttft_s, tpot_s)
    assert planned(isl, osl, users, ttft_s * factor, tpot_s) <= tight
    assert planned(isl, osl, users, ttft_s, tpot_s * factor) <= tight


def test_a_rate_and_its_users_are_the_same_load() -> None:
    """Little: N users in answers of T seconds ask N / T times a second."""
    flags = {"gpu": ["l40s"], "tensor_parallel_size": [1], "quantization": ["fp8"], "kv_cache_dtype": ["auto"],
             "input_len": 1000, "output_len": 200, "tpot_s": 0.04}  # fmt: skip
    users = plan(MODEL, flags, PlanSettings(users=90)).result.candidates[0]
    rate = plan(MODEL, flags, PlanSettings(request_rate=users.requests_per_s * 0.9999)).result.candidates[0]
    assert (rate.replicas, rate.concurrency) == (users.replicas, users.concurrency)
    seconds = users.e2e_s.value
    thinking = plan(MODEL, flags, PlanSettings(users=180, think_s=seconds)).result.candidates[0]
    assert abs(thinking.concurrency * thinking.replicas - 90) <= thinking.replicas
