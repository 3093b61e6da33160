"""Replicas of attention as SGLang's arguments say them: they take their ranks from tp_size and share the experts."""

import pytest

from kvcalc.engines import logged_settings
from kvcalc.engines.logs.facts import LogFacts


@pytest.mark.parametrize(
    "said, expected",
    [
        ({}, {"data_parallel_size": 1}),
        ({"data_parallel_size": 2, "tensor_parallel_size": 8}, {"data_parallel_size": 2}),
        ({"expert_parallel_size": 1}, {"data_parallel_size": 1}),
        ({"expert_parallel_size": 8}, {"data_parallel_size": 1, "enable_expert_parallel": True}),
        (
            {"data_parallel_size": 4, "tensor_parallel_size": 8, "enable_dp_attention": True},
            {"data_parallel_size": 4, "tensor_parallel_size": 2, "enable_expert_parallel": True},
        ),
        # What does not divide is left to the check of the flags.
        ({"data_parallel_size": 3, "tensor_parallel_size": 8, "enable_dp_attention": True}, {"data_parallel_size": 3}),
    ],
)
def test_replicas_of_a_log(said: dict[str, int], expected: dict[str, object]) -> None:
    assert logged_settings("sglang", LogFacts(settings=said)) == expected
