"""Two processes find what one does, and a process that fails costs time only."""

import os
from typing import Any

import pytest

from kvcalc.answers.plan import halves
from kvcalc.answers.plan.ask import plan_from
from kvcalc.results.plan import PlanResult

GPUS = ["l4", "l40s", "a10", "a10g", "t4", "rtx4090", "rtx5090", "h100-pcie"]


def planned(cores: int, **more: Any) -> PlanResult:
    flags = {"gpu": GPUS, "tensor_parallel_size": ["1"], "kv_cache_dtype": ["auto"], "quantization": ["fp8"],
             "input_len": "1k", "output_len": "200", "users": "50", "tpot_s": "40ms", **more}  # fmt: skip
    return plan_from("llama-3.2-1b", flags, cores=cores).result


def test_two_processes_give_the_same_answer() -> None:
    assert planned(2) == planned(1)
    assert planned(2, tpot_s="1us") == planned(1, tpot_s="1us")


def test_a_process_that_fails_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        os._exit(1)

    monkeypatch.setattr(halves, "_child", fails)
    assert planned(2) == planned(1)
