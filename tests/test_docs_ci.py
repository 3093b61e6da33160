"""The pipelines of docs/how-to/ci.md run: their commands, in a repository with a branch that breaks a limit."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "ci.md"
BLOCK = re.compile(r"^```yaml\n# (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES: dict[str, Any] = {name: yaml.safe_load(text) for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8"))}
BUDGET = """schema = "kvcalc.budget/1"

[[deployment]]
name = "chat"
model = "llama-3-8b"
gpu = "l40s"
max-model-len = "8K"

[deployment.limit]
min-batch = {batch}
"""


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    """A clone whose main branch keeps its budget; what stands for `kvcalc`, `pip` and `gh` beside it."""
    main, clone, tools = tmp_path / "main", tmp_path / "clone", tmp_path / "tools"
    for folder in (main, tools):
        folder.mkdir()
    (tools / "kvcalc").write_text(f'#!/bin/sh\nexec {sys.executable} -m kvcalc "$@"\n')
    for name in ("pip", "gh"):
        (tools / name).write_text("#!/bin/sh\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    (main / "budget.toml").write_text(BUDGET.format(batch=20))
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "a"]):
        subprocess.run(["git", *words], cwd=main, check=True)
    subprocess.run(["git", "clone", "-q", str(main), str(clone)], check=True)
    return clone


def run(script: str, folder: Path) -> int:
    path = f"{folder.parent / 'tools'}:{os.environ['PATH']}"
    own = {"PATH": path, "GITHUB_BASE_REF": "main", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "PR": "1"}
    return subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=folder, env={**os.environ, **own}).returncode


def test_every_pipeline_is_there() -> None:
    assert set(FILES) == {".github/workflows/budget.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml"}


@pytest.mark.parametrize("batch, verdict", [(22, 0), (2000, 1)])
def test_github(branch: Path, batch: int, verdict: int) -> None:
    (branch / "budget.toml").write_text(BUDGET.format(batch=batch))
    scripts = [
        step["run"] for step in FILES[".github/workflows/budget.yml"]["jobs"]["budget"]["steps"] if "run" in step
    ]
    assert [run(script, branch) for script in scripts] == [0] * (len(scripts) - 1) + [verdict]
    assert "chat" in (branch / "changes.md").read_text()


def test_gitlab(branch: Path) -> None:
    script = "\n".join(FILES[".gitlab-ci.yml"]["budget"]["script"])
    assert run(script, branch) == 0
    (branch / "budget.toml").write_text(BUDGET.format(batch=2000))
    assert run(script, branch) == 1
    assert "BROKEN" in (branch / "changes.md").read_text()


def test_pre_commit(branch: Path) -> None:
    """pre-commit adds the names of the files that changed."""
    (hook,) = FILES[".pre-commit-config.yaml"]["repos"][0]["hooks"]
    assert re.search(hook["files"], "budget.toml")
    assert run(f"{hook['entry']} budget.toml", branch) == 0
