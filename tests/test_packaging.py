"""The wheel holds every data file, and what is in it answers away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
DATA = {"kvcalc": "kvcalc", "model_cards": "kvcalc/data/model_cards", "gpu_specs": "kvcalc/data/gpu_specs"}
QUESTIONS = (
    "size llama-3-8b --gpu h100-sxm --price 2",
    "kv deepseek-v3",
    "models gpt-oss-20b",
    "gpus h200",
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = next(iter(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_every_data_file_is_in_the_wheel(unpacked: Path) -> None:
    expected = {
        Path(to) / file.relative_to(ROOT / folder)
        for folder, to in DATA.items()
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {path for path in expected if not (unpacked / path).is_file()} == set()
    assert sum(path.suffix == ".toml" for path in expected) > 200


def test_nothing_else_is_in_the_wheel(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")} == {"kvcalc"}
    assert list(unpacked.rglob("*.pyc")) == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_unpacked_wheel_answers(unpacked: Path, question: str, tmp_path: Path) -> None:
    where = f"import kvcalc, sys; assert kvcalc.__file__.startswith({str(unpacked)!r}), kvcalc.__file__; "
    script = where + f"from kvcalc.cli.app import run; sys.exit(run({question.split()!r}))"
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
