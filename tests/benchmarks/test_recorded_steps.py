"""Steps that a recorded run shows by themselves: which seconds and prompts are taken, and what they held."""

from types import SimpleNamespace
from typing import Any

import pytest
import recorded_steps

from kvcalc.counting.work import Step


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps that kvcalc is asked for; each is said to take 10 ms, or 50 ms with a prompt."""
    steps: list[Step] = []

    def timed(_: object, step: Step) -> SimpleNamespace:
        steps.append(step)
        return SimpleNamespace(time_s=0.05 if step.prompts else 0.01)

    monkeypatch.setattr(recorded_steps, "Pass", timed)
    return steps


DEPLOYED: Any = SimpleNamespace(replica=SimpleNamespace(ahead=1), max_num_batched_tokens=2048)


def request(number: int, scheduled: float, first: float, last: float, tokens: int = 100) -> dict[str, Any]:
    return {"id": number, "input_tokens": tokens, "output_tokens": 100, "scheduled_s": scheduled,
            "first_token_s": first, "last_token_s": last, "hash_ids": [1, 2] if number else [1, 2, 3]}  # fmt: skip


def second(t: int, tokens: float, running: int, waiting: int, prompt: float = 0.0) -> dict[str, float]:
    return {"t": t, "gen_throughput": tokens, "running": running, "waiting": waiting, "prompt_throughput": prompt,
            "kv_cache_pct": 50.0}  # fmt: skip


def test_a_full_second_has_no_prompt_no_newcomer_and_a_queue(asked: list[Step]) -> None:
    seconds = [second(1, 800, 10, 3), second(2, 900, 10, 3), second(3, 900, 10, 3, prompt=5.0), second(4, 900, 12, 3),
               second(5, 900, 11, 0)]  # fmt: skip
    case = {"every_second": seconds, "num_gpu_blocks": 100, "block_size": 16, "requests": []}
    assert recorded_steps.full_batch(case, DEPLOYED) == [pytest.approx(0.01 * 900 / 10)]
    assert asked == [Step(decode=10, context=80)]  # half of 1,600 tokens


def test_cached_tokens_follow_from_how_far_each_request_is() -> None:
    case = {"requests": [request(0, 0, 1, 3), request(1, 0, 2.5, 3)]}
    assert recorded_steps.cached(case, second(1, 1, 1, 1), second(2, 1, 1, 1)) == 100 + 25


def test_a_lone_prompt_waits_for_the_step_under_way(asked: list[Step]) -> None:
    """The second comes alone, its first two blocks cached; the third and fourth are planned together."""
    case = {
        "block_size": 16,
        "requests": [request(0, 0, 1, 9), request(1, 2, 2.1, 9), request(2, 3, 3.2, 9), request(3, 3.1, 3.2, 9)],
    }
    assert recorded_steps.lone_prompts(case, DEPLOYED) == [pytest.approx(0.06 / 0.1)]
    decode, own = asked
    assert decode == Step(decode=1, context=100 + 100 / 8)
    assert own == decode._replace(prompts=1, tokens=68, start=32)


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    one, other = request(1, 0, 1, 2, tokens=32), request(0, 0, 1, 2)
    assert recorded_steps.shared(one, [other], 16) == 16
    assert recorded_steps.shared(one, [], 16) == 0
