"""Steps of many tokens without a cache: like a prefill whose tokens all see each other."""

from pathlib import Path

import pytest

from kvcalc.answers.question import ask
from kvcalc.answers.step.tokens import step_of_tokens
from kvcalc.errors import KvcalcError
from kvcalc.results.step import StepResult

EMULATOR = """
name = "emulator"
title = "An autoregressive emulator"
[source]
what = "made for this test"
[spec]
hidden = {hidden}
vocab = 64
[[spec.groups]]
layers = 8
mixers = [{{ kind = "attention", query_heads = 16, kv_heads = 16, head_dim = 64, v_head_dim = 64 }}]
mlp = {{ kind = "dense", width = {width}, gated = false }}
tensors = [
  {{ name = "qkv", shape = [3072, {hidden}], category = "attention", split = "columns", matmul = true }},
  {{ name = "o", shape = [{hidden}, 1024], category = "attention", split = "rows", matmul = true }},
  {{ name = "up", shape = [{width}, {hidden}], category = "mlp", split = "columns", matmul = true }},
  {{ name = "down", shape = [{hidden}, {width}], category = "mlp", split = "rows", matmul = true }},
]
"""


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    def call(tokens: int, hidden: int = 4096, width: int = 16384, **flags: str) -> StepResult:
        path = tmp_path / "emulator.toml"
        path.write_text(EMULATOR.format(hidden=hidden, width=width))
        given = {"gpu": "h100-sxm", "engine": "ideal", **flags}
        return step_of_tokens(ask(str(path), given), tokens).result

    return call


def test_compute_bound_at_batch_one_above_the_threshold(run) -> None:  # type: ignore[no-untyped-def]
    """Lesson 12, section 6: compute-bound even at batch 1 when its tokens per step exceed B*."""
    assert run(256).limit == "memory"
    assert run(512).limit == "compute"
    rows = {row.name: row.rows for row in run(512).matmul_thresholds}
    assert rows["up"] == pytest.approx(324.5, abs=0.1)  # R·D·F / (D·F − R·(D + F)), R = 295.2


def test_narrow_matmuls_are_never_compute_bound(run) -> None:  # type: ignore[no-untyped-def]
    """Lesson 12, section 6: it needs D·F / (D + F) > R; 256 × 512 gives 171."""
    rows = {row.name: row.rows for row in run(65_536, hidden=256, width=512).matmul_thresholds}
    assert rows["up"] is None
    found = run(65_536, hidden=256, width=512)
    assert {row.limit for row in found.operators if row.name in ("gate and up", "down")} == {"memory"}


def test_flops_and_bytes_by_hand(run) -> None:  # type: ignore[no-untyped-def]
    found = run(1000)
    parameters = 8 * (3072 * 4096 + 4096 * 1024 + 2 * 4096 * 16384)
    attention = 8 * 4 * 16 * 64 * 1000**2  # every token sees all, not the causal half
    assert found.weight_bytes == 2 * parameters
    assert found.flops == 2 * parameters * 1000 + attention
    assert found.cache_bytes == 0


def test_earlier_steps_are_read_where_it_attends_to_them(run) -> None:  # type: ignore[no-untyped-def]
    found = run(1000, context="4000")
    assert found.cache_bytes == 8 * 4000 * 2 * 16 * 64 * 2
    assert found.flops > run(1000).flops


def test_the_estimate_is_above_the_bound(run) -> None:  # type: ignore[no-untyped-def]
    found = run(4096, engine="vllm")
    assert found.estimate_s is not None
    assert found.estimate_s.value > found.bound_s


def test_no_tokens_are_refused(run) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KvcalcError, match="--tokens-per-step"):
        run(0)
