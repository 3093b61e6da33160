"""Steps with room for whole prompts: what TensorRT-LLM is started with where prompts are long, and what is said."""

from typing import Any

import pytest

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.command import command_for
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.prompt_room import longest_prompt, whole_prompts
from kvcalc.answers.question import Question, ask
from kvcalc.answers.simulate.ask import Asked, simulate_from
from kvcalc.answers.simulate.machine import simulated
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.size.answer import size

SERVED = {"gpu": "h200-sxm", "tensor_parallel_size": "4", "engine": "trtllm", "output_len": "1024", "concurrency": "64"}


def asked(**flags: Any) -> Question:
    return ask("llama-3.3-70b", {**SERVED, **flags})


@pytest.mark.parametrize(
    "flags, tokens",
    [
        # Mixed lengths go to one and a half times the mean: 12,288, and 2,048 of max_batch_size; in whole 64s as it is.
        ({"input_len": "8192"}, 14_336),
        ({"input_len": "8192", "equal_lengths": True}, 10_240),
        ({"input_len": "8192", "equal_lengths": True, "max_num_seqs": "64"}, 8256),
        ({"input_len": "8192", "equal_lengths": True, "max_num_seqs": "10"}, 8256),  # 8,202: 128.2 times 64
        ({"input_len": "10000", "max_model_len": "12000", "max_num_seqs": "80"}, 12_096),  # none is longer than 12,000
        ({"input_len": "4096"}, None),  # 6,144 + 2,048 are the default's 8,192
        ({"input_len": "4097"}, 8256),  # 6,146
        ({"input_len": "8192", "max_num_batched_tokens": "9000"}, 9000),
        ({"input_len": "8192", "engine": "vllm"}, None),
        ({"input_len": "8192", "enable_chunked_prefill": True}, None),  # split into steps of the default's 8,192
        ({"input_len": None}, None),
    ],
)
def test_long_prompts_ask_for_long_steps(flags: dict[str, Any], tokens: int | None) -> None:
    flags = {name: value for name, value in flags.items() if value is not None}
    question = asked(**flags)
    assert question.deployment.max_num_batched_tokens == tokens
    command = command_for(question)
    assert command is not None
    assert ("--max_num_tokens" in command.line) == (tokens is not None)


def test_what_is_taken_is_listed_and_enters_memory_and_time() -> None:
    question = asked(input_len="8192")
    deployed = Deployed(question)
    found = [one for one in assumptions_of(deployed) if one.name == "max_num_batched_tokens"]
    assert [one.value for one in found] == [14_336]
    assert "12,288" in found[0].why
    assert deployed.replica.budget == 14_336
    # Its profile run is of as many tokens, so that less is left: as if it were given.
    given = Deployed(asked(input_len="8192", max_num_batched_tokens="14336"))
    assert deployed.pool_bytes == given.pool_bytes
    assert [one.why for one in assumptions_of(given) if one.name == "max_num_batched_tokens"] == [
        "max_num_tokens of the profile run"
    ]


@pytest.mark.parametrize(
    "tokens, said, whole",
    [
        ("8192", "refuses them", False),  # below the longest, 12,288
        ("12300", "waits until enough of them end", True),  # 63 others decode beside it
        ("12351", None, True),
        ("2048 split", None, False),
    ],
)
def test_a_limit_without_room_is_said(tokens: str, said: str | None, whole: bool) -> None:
    tokens, _, split = tokens.partition(" ")
    question = asked(input_len="8192", max_num_batched_tokens=tokens, enable_chunked_prefill=bool(split))
    warned = [one for one in size(question).warnings if "max-num-batched-tokens" in one]
    assert len(warned) == (said is not None)
    assert said is None or (said in warned[0] and "14,336" in warned[0])
    assert whole_prompts(question, int(tokens)) is whole
    simulation = simulated(Deployed(question), SimulateSettings(), 9216)
    assert simulation.settings.whole_prompts is whole


def test_lengths_that_nobody_said_are_not_guessed() -> None:
    question = ask("llama-3.3-70b", {"gpu": "h200-sxm", "tensor_parallel_size": "4", "engine": "trtllm"})
    assert longest_prompt(question) is None
    assert whole_prompts(question, 8192)


@pytest.mark.parametrize(
    "lengths, tokens",
    [
        ({"input_len": "8192", "output_len": "64"}, 14_336),  # mixed, as in `size`
        ({"input_len": "100-9000", "output_len": "64"}, 11_072),  # 9,000 + 2,048, in whole 64s
        ({"input_len": "1000", "output_len": "64"}, 8192),
    ],
)
def test_simulated_requests_ask_for_the_same_steps(lengths: dict[str, str], tokens: int) -> None:
    flags = {name: value for name, value in SERVED.items() if name != "output_len"}
    own = {"requests": 70}
    report = simulate_from(Asked("llama-3.3-70b", flags, lengths, own))
    assert report.inputs["max_num_batched_tokens"] == tokens
    listed = [one.value for one in report.assumptions if one.name == "max_num_batched_tokens"]
    assert listed == [tokens]
