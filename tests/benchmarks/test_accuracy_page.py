"""The page of accuracy: every figure comes from a benchmark's JSON, the worst stands first; refits are compared."""

from pathlib import Path
from typing import Any

import accuracy_page as page
from times import refit_check


def group(name: str, error: float, left_out: float | None = None) -> dict[str, Any]:
    return {"group": name, "points": 4, "left_out": 1, "median_abs_error": error, "cv_median_abs_error": left_out,
            "coverage": 0.8}  # fmt: skip


def test_the_worst_group_stands_first() -> None:
    lines = page.by_group([group("good", 0.02), group("bad", 0.123), group("worse left out", 0.03, 0.5)])
    assert [line.split(" | ")[0] for line in lines[3:6]] == ["| worse left out", "| bad", "| good"]
    assert lines[4] == "| bad | 4 | 1 | 12 % |  | 80 % |"


def test_cells_of_few_points_are_not_among_the_worst() -> None:
    points = [{"id": name, "have": have, "want": 1.0} for name, have in (("a", 1.1), ("a", 1.2), ("a", 1.3), ("b", 9))]
    lines = page.worst_cells(points, lambda point: point["id"])
    assert lines[3] == "| a | 3 | 20 % | +20 % |"
    assert not any(line.startswith("| b") for line in lines)


def test_a_report_out_of_its_range_says_so() -> None:
    one = {"id": "x", "group": "g", "counts": True, "have": 2.0, "low": 1.5, "high": 3.0, "want": 1.0}
    assert page.worst_points([one])[3] == "| x | g | 2.00 | no |"


def test_a_result_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "serve.json").write_text('{"summary": 1}')
    assert page.results("serve", tmp_path / "none", tmp_path) == {"summary": 1}


def test_refits_are_compared_row_by_row() -> None:
    shipped = {"evidence": "then", "gemm": [{"dtype": "fp8", "latency_s": 5e-6}, {"dtype": "bf16", "latency_s": 3e-6}]}
    same = {"evidence": "now", "gemm": [{"dtype": "bf16", "latency_s": 3.01e-6}, {"dtype": "fp8", "latency_s": 5e-6}]}
    other = {"gemm": [{"dtype": "fp8", "latency_s": 5.2e-6}]}
    assert list(refit_check.differences(shipped, same)) == []
    assert list(refit_check.differences(shipped, other)) == [
        "gemm bf16: shipped {'dtype': 'bf16', 'latency_s': 3e-06}, made None",
        "gemm fp8 latency_s: shipped 5e-06, made 5.2e-06",
    ]


def test_files_are_as_they_were_after_a_check(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("x = 1\n")
    with refit_check.kept([path]) as shipped:
        path.write_text("x = 2\n")
        assert shipped[path] == {"x": 1}
    assert path.read_text() == "x = 1\n"
