"""What a type checker says of the API: the result's class, and which keywords there are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """import kvcalc
reveal_type(kvcalc.size("m", gpu="g", tp=2, isl=2000))
reveal_type(kvcalc.size("m"))
reveal_type(kvcalc.size("m", gpu="g").result.serving)
reveal_type(kvcalc.kv(["m", "n"], context=[1, 2]))
reveal_type(kvcalc.step("m", gpu="g", explain=True))
reveal_type(kvcalc.compare("m", gpu=["g", "h"], tp=[1, 2]))
reveal_type(kvcalc.curve("m", gpu="g", batch=[1, 2]))
reveal_type(kvcalc.prefill("m", gpu="g", chunk=512))
reveal_type(kvcalc.speculate("m", gpu="g", acceptance=0.8))
reveal_type(kvcalc.simulate("m", gpu="g", request_rate=2))
reveal_type(kvcalc.plan("m", isl=1000, osl=100, users=5))
reveal_type(kvcalc.check("budget.toml"))
reveal_type(kvcalc.diagnose("vllm.log"))
reveal_type(kvcalc.models())
reveal_type(kvcalc.models("m"))
reveal_type(kvcalc.gpus())
reveal_type(kvcalc.gpus("g"))
reveal_type(kvcalc.gpus(machines=True))
reveal_type(kvcalc.load_model("m"))
reveal_type(kvcalc.load_gpu("g"))
reveal_type(kvcalc.read_budget("budget.toml"))
kvcalc.size("m", gpu="g", tpp=2)
kvcalc.size("m", gpu="g", tp=[1, 2])
"""
REVEALED = (
    *("SizeReport", "RankingReport", "Serving | None", "KvReport", "StepReport", "CompareReport", "CurveReport"),
    *(
        "PrefillReport",
        "SpeculateReport",
        "SimulateReport",
        "PlanReport",
        "CheckReport",
        "DiagnoseReport",
        "ModelsReport",
    ),
    *("ModelReport", "GpusReport", "GpuReport", "MachinesReport", "ModelSpec", "GpuSpec", "Budget"),
)


def test_a_type_checker_knows_every_result(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)  # with the project's own cache
    revealed = re.findall(r'Revealed type is "([^"]*)"', done.stdout)
    assert [re.sub(r"kvcalc\.[\w.]*\.", "", one) for one in revealed] == list(REVEALED)
    refused = {int(line) for line in re.findall(r":(\d+): error:", done.stdout)}
    assert refused == {23, 24}, done.stdout
