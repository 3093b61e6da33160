"""llama.cpp's layer split from runs on one device and on four, worked out by hand."""

from types import SimpleNamespace
from typing import Any

import pytest
from times.fit_split import busy, fit_split, hop_s


def run(stages: int, seconds: float, test: str = "pp", ubatches: float = 9, size: float = 8e9) -> Any:
    row = {"model": f"{size:.0f}", "quant": "Q4_0", "test": test, "n": 512 * ubatches}
    return SimpleNamespace(
        row=row, device="x", stages=stages, decodes=test == "tg", measured_s=seconds, steps=((ubatches, None),),
        stage_parameters=size / stages,
    )  # fmt: skip


def test_a_pair_tells_the_hop_and_the_overlap() -> None:
    assert hop_s((run(1, 0.010, "tg"), run(4, 0.0112, "tg"))) == pytest.approx(0.4e-3)
    # Nine ubatches in a third of the time: three ubatches' worth, of which eight overlap at 8 / (4 · 2).
    assert busy((run(1, 0.9), run(4, 0.3))) == pytest.approx(1.0)
    assert busy((run(1, 0.9), run(4, 0.5))) == pytest.approx(0.5)
    assert busy((run(1, 0.9, ubatches=1), run(4, 0.5, ubatches=1))) is None


def test_the_table_has_medians_at_the_smallest_and_the_largest_stages() -> None:
    found = fit_split([
        run(1, 0.010, "tg"), run(4, 0.0112, "tg"), run(1, 0.9), run(4, 0.3), run(1, 9, size=80e9), run(4, 9, size=80e9),
    ])  # fmt: skip
    assert found["hop_s"] == pytest.approx(0.4e-3)
    assert found["parameters"] == [2e9, 20e9]
    assert found["busy"] == pytest.approx([1.0, 0.25])
    assert found["points"] == 3
