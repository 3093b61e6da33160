"""`--format svg|png|html`, and what a file's name implies."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvcalc.render.pictures.library import Made
from tests.cli.conftest import Cli, assert_refused

LINES = {
    "curve": "curve llama-3-8b --gpu h100-sxm --context 2048 --tpot 50ms --price 2",
    "kv": "kv llama-3-8b deepseek-v3",
    "speculate": "speculate llama-3-8b --gpu h100-sxm --draft-cost 0.15 --acceptance 0.8 --context 2048",
    "simulate": "simulate llama-3-8b --gpu h100-sxm --isl 512 --osl 64 --requests 20 --request-rate 5 --ttft 1s "
    "--step-time 10ms",
}
WORDS = {
    "curve": ["tokens/s per GPU", "50.0 ms a token", "USD per million output tokens"],
    "kv": ["llama-3-8b", "deepseek-v3", "1.00 GiB"],  # the lesson: 8,192 tokens of llama-3-8b
    "speculate": ["no gain", "speed-up", "draft tokens of a pass, γ"],
    "simulate": ["TTFT 1.00 s", "time per output token", "p99"],
}


@pytest.mark.parametrize("command", LINES)
def test_a_name_implies_the_picture(cli: Cli, tmp_path: Path, command: str) -> None:
    path = tmp_path / "a.svg"
    ran = cli(f"{LINES[command]} -o {path}")
    assert (ran.code, ran.out) == (0, "")
    text = path.read_text()
    assert text.startswith("<svg")
    for word in WORDS[command]:
        assert f">{word}</text>" in text, word


def test_of_one_model_what_each_trick_saves(cli: Cli, tmp_path: Path) -> None:
    """Llama-3-8B with a KV head for each of its 32 query heads has four times the cache: the lessons' g."""
    ran = cli(f"kv llama-3-8b -o {tmp_path}/a.svg")
    assert ran.code == 0
    assert ">4.00 GiB, 4.00 ×</text>" in (tmp_path / "a.svg").read_text()


class NoLibrary:
    """In place of the JavaScript, which takes seconds and is tested in a browser."""

    def __enter__(self) -> "NoLibrary":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def made(self, specs: list[dict[str, Any]]) -> Made:
        return Made("window.vega = {}", specs)


def test_a_point_of_the_picture_is_the_tables(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcalc.render.pictures.answer.Library", NoLibrary)
    line = LINES["curve"]
    points: Any = cli(line + " --json").result["points"]
    assert cli(f"{line} -o {tmp_path}/a.html").code == 0
    page = (tmp_path / "a.html").read_text()
    figures = json.loads(re.search(r'id="figure-data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    columns, rows = figures["figure-1"]["rows"].values()
    assert [row[columns.index("y")] for row in rows] == [one["output_tokens_per_s_per_gpu"] for one in points]
    assert [row[columns.index("mark")] for row in rows] == [str(one["batch"]) for one in points]


@pytest.mark.parametrize(
    "name, start", [("a.json", "{"), ("a.csv", "gpu,tp,batch"), ("a.md", "## llama"), ("a.txt", "llama")]
)
def test_other_names(cli: Cli, tmp_path: Path, name: str, start: str) -> None:
    assert cli(f"{LINES['curve']} -o {tmp_path / name}").code == 0
    assert (tmp_path / name).read_text().lstrip().startswith(start)


def test_an_explicit_format_is_kept(cli: Cli, tmp_path: Path) -> None:
    assert cli(f"{LINES['curve']} --json -o {tmp_path}/a.svg").code == 0
    assert json.loads((tmp_path / "a.svg").read_text())["schema"].startswith("kvcalc.curve/")


def test_what_a_command_does_not_draw(cli: Cli, tmp_path: Path) -> None:
    ran = cli(f"size llama-3-8b --gpu h100-sxm -o {tmp_path}/a.svg")
    assert_refused(ran)
    assert "svg" in ran.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", LINES)
def test_without_the_extra(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "vl_convert" else found(name, *more)
    )
    monkeypatch.setattr("kvcalc.render.pictures.draw.find_spec", importlib.util.find_spec)
    ran = cli(f"{LINES[command]} -o {tmp_path}/a.png")
    assert_refused(ran)
    assert "pip install 'kvcalc[report]'" in ran.err
    assert not list(tmp_path.iterdir())
