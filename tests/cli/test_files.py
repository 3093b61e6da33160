"""`-o`: regular files whole or not at all and with their mode; devices, pipes and links are written through."""

import json
import os
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, assert_refused

SIZE = "size llama-3-8b --gpu h100-sxm --context 2048 --price 2"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_of_a_file_stays(cli: Cli, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("old")
    path.chmod(mode)
    cli(f"{SIZE} -o", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == cli(SIZE).out


def test_a_device_is_written_through(cli: Cli) -> None:
    before = os.stat("/dev/null")
    assert cli(f"{SIZE} -o /dev/null").code == 0
    after = os.stat("/dev/null")
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_a_full_device_is_an_error(cli: Cli) -> None:
    assert_refused(cli(f"{SIZE} -o /dev/full"))


def test_a_pipe_is_written_through(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    assert cli(f"{SIZE} -o", str(path)).code == 0
    reader.join(30)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert read == [cli(SIZE).out]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed(cli: Cli, tmp_path: Path, exists: bool) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "answer.txt", tmp_path / "link"
    link.symlink_to(Path("there") / "answer.txt")
    if exists:
        target.write_text("old")
        target.chmod(0o600)
    assert cli(f"{SIZE} -o", str(link)).code == 0
    assert link.is_symlink()
    assert target.read_text() == cli(SIZE).out
    assert not exists or stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["answer.txt"]


def test_a_link_to_a_device_is_followed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    assert cli(f"{SIZE} -o", str(tmp_path / "link")).code == 0
    assert (tmp_path / "link").is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "loop"])
def test_what_is_no_path_is_refused(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert_refused(cli(f"{SIZE} -o", str(tmp_path / name)))


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such device here")
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_file_is_written_through(tmp_path: Path, name: str) -> None:
    line = [sys.executable, "-m", "kvcalc", *SIZE.split()]
    piped = subprocess.run([*line, "-o", name], capture_output=True, text=True, timeout=120)
    assert piped.returncode == 0
    assert piped.stdout == subprocess.run(line, capture_output=True, text=True, timeout=120).stdout
    kept = tmp_path / "kept"
    with kept.open("w") as file:
        before = kept.stat().st_ino
        subprocess.run([*line, "-o", name], stdout=file, stderr=subprocess.DEVNULL, timeout=120, check=True)
    assert kept.stat().st_ino == before
    assert kept.read_text() == piped.stdout


def test_a_card_is_named_as_its_file(cli: Cli, tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    card = tmp_path / "small-one.toml"
    cli("models --source https://example.org --new-card", str(tmp_path), "-o", str(card))
    assert tomllib.loads(card.read_text())["name"] == "small-one"
