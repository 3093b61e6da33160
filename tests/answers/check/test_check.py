"""A gate never passes by accident: one test for each way it could."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401

HEAD = 'schema = "kvcalc.budget/1"\n'
CHAT = """
[[deployment]]
name = "chat"
model = "llama-3-8b"
gpu = "h100-sxm"
max-model-len = "8K"
price = 2.50
"""
FITS = "[deployment.limit]\nfits = true\n"


def budget(folder: Path, text: str) -> str:
    path = folder / "budget.toml"
    path.write_text(text)
    return str(path)


def test_the_page_of_the_command_line(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """Every limit at once, each well within reach."""
    text = HEAD + '[defaults]\nmax-model-len = "8K"\n' + CHAT.replace('max-model-len = "8K"\n', "batch = 32\n")
    text += """tensor-parallel-size = 1
input-len = "1k"
output-len = 200
concurrency = 32
[deployment.limit]
fits = true
min-sequences = 40
min-batch = 40
min-tokens = 400000
max-weight-gib = 20
max-kv-bytes-per-token = 131072
max-tpot = "25ms"
max-ttft = "1s"
min-tokens-per-second = 1000
max-usd-per-mtok = 1.0
max-gpus = 1
"""
    ran = cli("check --json", budget(tmp_path, text))
    assert ran.code == 0
    (one,) = ran.result["deployments"]
    assert len(one["limits"]) == 11
    assert all(limit["passed"] for limit in one["limits"])


BROKEN = [
    ("fits = true", CHAT.replace("llama-3-8b", "llama-3-70b")),
    ("min-sequences = 5000", CHAT),
    ("min-batch = 5000", CHAT),
    ('min-tokens = "100M"', CHAT),
    ("max-weight-gib = 1", CHAT),
    ("max-kv-bytes-per-token = 100", CHAT),
    ('max-tpot = "1ms"', CHAT),
    ('max-ttft = "1ms"', CHAT + "input-len = 2000\noutput-len = 100\n"),
    ("min-tokens-per-second = 1000000", CHAT),
    ("max-usd-per-mtok = 0.001", CHAT),
    ("max-gpus = 1", CHAT + "tensor-parallel-size = 2\n"),
    ("fits = false", CHAT),
    ('max-tpot = "1ms"\njudge = "value"', CHAT),
    ('max-tpot = "1ms"\njudge = "bound"', CHAT),
]


@pytest.mark.parametrize("limit, deployment", BROKEN, ids=[limit for limit, _ in BROKEN])
def test_a_broken_limit_exits_with_1(cli: Cli, tmp_path: Path, limit: str, deployment: str) -> None:  # noqa: F811
    ran = cli("check --json", budget(tmp_path, f"{HEAD}{deployment}[deployment.limit]\n{limit}\n"))
    assert ran.code == 1
    assert ran.result["passed"] is False
    (one,) = ran.result["deployments"]
    assert [x["passed"] for x in one["limits"]] == [False]


ACCIDENTS = {
    "empty file": "",
    "only a schema": HEAD,
    "no schema": CHAT + FITS,
    "another schema": 'schema = "kvcalc.budget/2"\n' + CHAT + FITS,
    "no deployments": HEAD + "deployment = []\n",
    "no limits": HEAD + CHAT,
    "empty limits": HEAD + CHAT + "[deployment.limit]\n",
    "only a judge": HEAD + CHAT + '[deployment.limit]\njudge = "bound"\n',
    "typo in a limit": HEAD + CHAT + "[deployment.limit]\nmin-tokenz = 1\n",
    "typo in a flag": HEAD + CHAT + "tensor-paralel-size = 2\n" + FITS,
    "typo in the table": HEAD + CHAT.replace("[[deployment]]", "[[deploymnet]]") + "limit.fits = true\n",
    "typo in defaults": HEAD + "[defaults]\nmax-modellen = 1\n" + CHAT + FITS,
    "a GPU in defaults that is no name": HEAD + "[defaults]\ngpu = 3\n" + CHAT.replace('gpu = "h100-sxm"\n', "") + FITS,
    "limits in defaults": HEAD + "[defaults]\nlimit.fits = true\n" + CHAT,
    "unknown model": HEAD + CHAT.replace("llama-3-8b", "llama-9-8b") + FITS,
    "unknown gpu": HEAD + CHAT.replace("h100-sxm", "h900-sxm") + FITS,
    "no model": HEAD + CHAT.replace('model = "llama-3-8b"\n', "") + FITS,
    "no gpu": HEAD + CHAT.replace('gpu = "h100-sxm"\n', "") + FITS,
    "a Hub id without a revision": HEAD + CHAT.replace("llama-3-8b", "someone/something") + FITS,
    "two of one name": HEAD + CHAT + FITS + CHAT + FITS,
    "context above the maximum": HEAD + CHAT + 'context = "16K"\n' + FITS,
    "cost without a price": HEAD + CHAT.replace("price = 2.50\n", "") + "[deployment.limit]\nmax-usd-per-mtok = 1\n",
    "a limit that is no number": HEAD + CHAT + '[deployment.limit]\nmin-batch = "many"\n',
    "a limit of zero": HEAD + CHAT + "[deployment.limit]\nmin-batch = 0\n",
    "a negative limit": HEAD + CHAT + "[deployment.limit]\nmax-weight-gib = -1\n",
    "a limit that is NaN": HEAD + CHAT + "[deployment.limit]\nmax-weight-gib = nan\n",
    "a limit that is infinite": HEAD + CHAT + "[deployment.limit]\nmax-weight-gib = inf\n",
    "fits as text": HEAD + CHAT + '[deployment.limit]\nfits = "yes"\n',
    "a number as a truth": HEAD + CHAT + "[deployment.limit]\nmin-batch = true\n",
    "a flag as a truth": HEAD + CHAT + "batch = true\n" + FITS,
    "fits as a number": HEAD + CHAT + "[deployment.limit]\nfits = 1\n",
    "time on an ideal engine": HEAD + CHAT + 'engine = "ideal"\n[deployment.limit]\nmax-tpot = "1s"\n',
    "a time without a unit": HEAD + CHAT + "[deployment.limit]\nmax-tpot = 25\n",
    "a target without a unit": HEAD + CHAT + "tpot = 50\n" + FITS,
    "a size without a unit": HEAD + CHAT + "overhead = 3\n" + FITS,
    "a version that is a number": HEAD + CHAT + "engine-version = 0.10\n" + FITS,
    "one flag by two names": HEAD + CHAT + "tp = 1\ntensor-parallel-size = 2\n" + FITS,
    "a switch as text": HEAD + CHAT + 'enforce-eager = "no"\n' + FITS,
    "a switch as a number": HEAD + CHAT + "enforce-eager = 0\n" + FITS,
    "a name of nothing": HEAD + CHAT.replace('"chat"', '""') + FITS,
    "unknown judge": HEAD + CHAT + '[deployment.limit]\nmax-tpot = "1s"\njudge = "hope"\n',
    "not TOML": HEAD + "[[deployment]\n",
    "a table for a flag": HEAD + CHAT + "batch = {a = 1}\n" + FITS,
    "a heads split that is impossible": HEAD + CHAT + "tensor-parallel-size = 3\n" + FITS,
}


@pytest.mark.parametrize("text", ACCIDENTS.values(), ids=ACCIDENTS.keys())
def test_what_could_pass_by_accident_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:  # noqa: F811
    assert_refused(cli("check", budget(tmp_path, text)))


def test_defaults_hold_for_every_deployment_and_give_way_to_its_own(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """`--gpu` is a flag like any other."""
    shared = HEAD + '[defaults]\ngpu = "l40s"\ntensor-parallel-size = 2\n'
    own = CHAT.replace('"chat"', '"own"') + "tensor-parallel-size = 1\n" + FITS
    ran = cli("check --json", budget(tmp_path, shared + CHAT.replace('gpu = "h100-sxm"\n', "") + FITS + own))
    assert {one["name"]: one["header"].partition(" on ")[2] for one in ran.result["deployments"]} == {
        "chat": "2 × NVIDIA L40S 48GB, vLLM",
        "own": "1 × NVIDIA H100 SXM5 80GB, vLLM",
    }


def test_a_bare_number_of_gib_is_read_as_the_flag_reads_it(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """vLLM's --cpu-offload-gb takes GiB, and each holds 8,192 tokens of 128 KiB."""
    limit = "[deployment.limit]\nmin-tokens = 1\n"
    held = cli("check --json", budget(tmp_path, HEAD + CHAT + limit)).result["deployments"][0]["limits"][0]["have"]
    text = f"{HEAD}{CHAT}cpu-offload-gb = 4\n[deployment.limit]\nmin-tokens = "
    assert cli("check", budget(tmp_path, f"{text}{held + 4 * 8192 - 16}\n")).code == 0
    assert cli("check", budget(tmp_path, f"{text}{held + 4 * 8192 + 17}\n")).code == 1


def test_one_broken_among_many_fails_and_comes_first(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    good = CHAT.replace('"chat"', '"good"') + FITS
    ran = cli("check --json", budget(tmp_path, HEAD + good + CHAT + "[deployment.limit]\nmin-batch = 5000\n"))
    assert ran.code == 1
    assert [one["name"] for one in ran.result["deployments"]] == ["chat", "good"]


def test_memory_shared_with_the_host_is_judged_like_any_card(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """A GB10 has a range: what holds at its low end passes."""
    text = HEAD + CHAT.replace("h100-sxm", "gb10") + "[deployment.limit]\nmin-batch = 1\nfits = true\n"
    assert cli("check --json", budget(tmp_path, text)).code == 0


def test_limits_are_judged_on_the_worse_end(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """Between the estimate's value and its high: fails by default, passes on the value."""
    low_high = cli("size llama-3-8b --gpu h100-sxm --max-model-len 8K --json").result["estimate"]["step_time_s"]
    between = (low_high["value"] + low_high["high"]) / 2
    strict = f'{HEAD}{CHAT}[deployment.limit]\nmax-tpot = "{between:.6f}s"\n'
    assert cli("check", budget(tmp_path, strict)).code == 1
    assert cli("check", budget(tmp_path, strict + 'judge = "value"\n')).code == 0


@pytest.mark.parametrize("judge, key", [("high", "estimate_s"), ("value", "estimate_s"), ("bound", "bound_s")])
@pytest.mark.parametrize("prompt", [None, 3000])
def test_a_time_to_first_token_is_that_of_prefill(
    cli: Cli,  # noqa: F811
    tmp_path: Path,
    judge: str,
    key: str,
    prompt: int | None,
) -> None:
    """Without input-len, of a prompt as long as the context: nothing passes for want of a length."""
    length = "" if prompt is None else f"input-len = {prompt}\n"
    limits = f'[deployment.limit]\nmax-ttft = "20s"\njudge = "{judge}"\n'
    ran = cli("check --json", budget(tmp_path, HEAD + CHAT + length + limits))
    figure = cli(f"prefill llama-3-8b --gpu h100-sxm --max-model-len 8K --isl {prompt or 8192} --json").result[key]
    assert ran.result["deployments"][0]["limits"][0]["have"] == pytest.approx(
        figure if judge == "bound" else figure[judge]
    )
    assert ("input_len" in [one["name"] for one in ran.json["assumptions"]]) == (prompt is None)


def test_the_bound_on_a_first_token_needs_no_estimate(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """ML Systems lesson 12, section 4, step 5: 34 ms for 2,048 tokens."""
    text = HEAD + CHAT + 'engine = "ideal"\ninput-len = 2048\n[deployment.limit]\njudge = "bound"\nmax-ttft = '
    assert cli("check", budget(tmp_path, text + '"35ms"\n')).code == 0
    assert cli("check", budget(tmp_path, text + '"33ms"\n')).code == 1


def test_github_points_at_the_limit(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path = budget(tmp_path, HEAD + CHAT + "[deployment.limit]\nmin-batch = 5000\n")
    ran = cli("check --format github", path)
    assert ran.code == 1
    assert ran.out.startswith(f"::error file={path.replace(':', '%3A')},line=10,title=kvcalc check::chat: llama-3-8b")


def test_github_says_why_and_that_nothing_is_known(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    limits = '[deployment.limit]\nfits = true\nmax-tpot = "1s"\n'
    ran = cli("check --format github", budget(tmp_path, HEAD + CHAT.replace("llama-3-8b", "llama-3-70b") + limits))
    fits, tpot = ran.out.splitlines()
    assert "fits wants yes, has no (weights and overhead exceed the memory by" in fits
    assert "max-tpot wants 1.00 s, has nothing." in tpot


def test_the_exit_code_survives_the_process(tmp_path: Path) -> None:
    path = budget(tmp_path, HEAD + CHAT + "[deployment.limit]\nmin-batch = 5000\n")
    done = subprocess.run([sys.executable, "-m", "kvcalc", "check", path], capture_output=True, timeout=120)
    assert done.returncode == 1
