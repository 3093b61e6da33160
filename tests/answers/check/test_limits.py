"""Limits on a month and on what is simulated, who judges, whose fault it is, and what would mend it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401

HEAD = 'schema = "kvcalc.budget/1"\n'
CHAT = """
[[deployment]]
name = "chat"
model = "llama-3-8b"
gpu = "l40s"
input-len = 1000
output-len = 200
concurrency = 32
price = 1.25
"""
SIMULATED = (
    '[deployment.limit]\nmax-simulated-ttft = "{ttft}"\nmin-goodput = {rate}\nrequest-rate = 2\npercentile = 90\n'
)


def budget(folder: Path, text: str) -> str:
    (folder / "budget.toml").write_text(HEAD + text)
    return str(folder / "budget.toml")


def test_a_month_is_730_hours(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """1.25 $ an hour are 912.50 $ a month."""
    limit = "[deployment.limit]\nmax-usd-per-month = "
    assert cli("check", budget(tmp_path, f"{CHAT}{limit}912.5\n")).code == 0
    ran = cli("check --json", budget(tmp_path, f"{CHAT}{limit}900\n"))
    assert ran.code == 1
    assert ran.result["deployments"][0]["limits"][0]["have"] == 912.5
    assert_refused(cli("check", budget(tmp_path, CHAT.replace("price = 1.25\n", "") + limit + "900\n")))


def test_simulated_limits_are_those_of_simulate(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    ran = cli("check --json", budget(tmp_path, CHAT + SIMULATED.format(ttft="5s", rate=0.5)))
    assert ran.code == 0
    limits = {one["name"]: one["have"] for one in ran.result["deployments"][0]["limits"]}
    line = "simulate llama-3-8b --gpu l40s --isl 1000 --osl 200 --request-rate 2 --ttft 5s --percentile 90 --json"
    found = cli(line).result
    assert limits["max-simulated-ttft"] == found["targets"][0]["have_s"]["high"]
    assert limits["min-goodput"] == found["goodput_requests_per_s"]["low"]
    again = cli("check --json", budget(tmp_path, CHAT + SIMULATED.format(ttft="5s", rate=0.5)))
    assert again.result == ran.result
    assert cli("check", budget(tmp_path, CHAT + SIMULATED.format(ttft="1ms", rate=0.5))).code == 1


@pytest.mark.parametrize(
    "text",
    [
        CHAT + "[deployment.limit]\nfits = true\npercentile = 90\n",  # of nothing that is simulated
        CHAT + "[deployment.limit]\nmin-goodput = 1\n",  # of which requests?
        CHAT.replace("concurrency = 32\n", "") + '[deployment.limit]\nmax-simulated-tpot = "1s"\n',  # at which load?
        CHAT.replace("input-len = 1000\noutput-len = 200\n", "") + '[deployment.limit]\nmax-simulated-tpot = "1s"\n',
        CHAT + '[deployment.limit]\nmax-simulated-tpot = "1s"\njudge = "bound"\n',
        'judge = "hope"\n' + CHAT + "[deployment.limit]\nfits = true\n",
        "strict = 3\n" + CHAT + "[deployment.limit]\nfits = true\n",
    ],
)
def test_what_says_less_than_it_seems_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:  # noqa: F811
    assert_refused(cli("check", budget(tmp_path, text)))


def test_a_judge_for_all(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """The file's judge holds where a deployment names none."""
    limit = '[deployment.limit]\nmax-tpot = "1s"\n'
    other = CHAT.replace('"chat"', '"own"') + limit + 'judge = "high"\n'
    ran = cli("check --json", budget(tmp_path, 'judge = "value"\n' + CHAT + limit + other))
    judged = {one["name"]: one["limits"][0]["judged_on"] for one in ran.result["deployments"]}
    assert judged == {"chat": "serving", "own": "serving's high"}


def test_strict_fails_a_config_that_is_not_understood(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """Without it the deployment is judged, and annotated."""
    config = tmp_path / "config.json"
    config.write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 4,'
        ' "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 4096, "vocab_size": 32000,'
        ' "max_position_embeddings": 4096, "never_seen_window": 128}'
    )
    odd = CHAT.replace("llama-3-8b", str(config)).replace('"chat"', '"odd"') + "[deployment.limit]\nfits = true\n"
    whole = CHAT + "[deployment.limit]\nfits = true\n" + odd
    loose = cli("check --format github", budget(tmp_path, whole))
    assert loose.code == 0
    assert any(one.startswith("::warning") and "never_seen_window" in one for one in loose.out.splitlines())
    tight = cli("check --format github", budget(tmp_path, "strict = true\n" + whole))
    assert tight.code == 1
    assert any(one.startswith("::error") and "never_seen_window" in one for one in tight.out.splitlines())


def test_who_cannot_be_judged_fails_alone_and_is_annotated(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    limit = "[deployment.limit]\nfits = true\n"
    others = [CHAT.replace("l40s", "h900"), CHAT.replace("llama-3-8b", "llama-9-8b"), CHAT + 'context = "16K"\n']
    broken = "".join(text.replace('"chat"', f'"odd{i}"') + limit for i, text in enumerate(others))
    ran = cli("check --format github", budget(tmp_path, CHAT + limit + broken))
    assert ran.code == 1
    errors = [one for one in ran.out.splitlines() if one.startswith("::error")]
    lines = (tmp_path / "budget.toml").read_text().splitlines()
    starts = [number for number, line in enumerate(lines, start=1) if line == "[[deployment]]"]
    assert [f"line={start}," in one for start, one in zip(starts[1:], errors, strict=True)] == [True] * 3
    assert all("cannot be judged" in one for one in errors)
    assert_refused(cli("check --format github", budget(tmp_path, broken)))


@pytest.mark.parametrize(
    "limit, goal, word",
    [
        ('max-tpot = "5ms"', "speed", "max-tpot"),
        ('max-ttft = "5ms"', "speed", "max-ttft"),
        ("max-usd-per-mtok = 0.01", "cost", "$"),
        ("max-weight-gib = 1", "weights", "max-weight-gib"),
        ("min-batch = 5000", "batch", "sequences"),
    ],
)
def test_advice_fits_the_limit(cli: Cli, tmp_path: Path, limit: str, goal: str, word: str) -> None:  # noqa: F811
    """A slow deployment hears of speed, a dear one of cost, a small one of room."""
    ran = cli("check --json", budget(tmp_path, f"{CHAT}[deployment.limit]\n{limit}\n"))
    (one,) = ran.result["deployments"]
    assert one["advice"]
    assert {said["goal"] for said in one["advice"]} == {goal}
    assert word in one["advice"][0]["effect"]
    assert one["limits"][0]["mend"] == one["advice"][0]


def test_what_keeps_a_limit_stands_first_and_the_gpus_that_it_adds_are_said(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """An fp8 cache costs nothing; two GPUs of USD 2.50 an hour are USD 2.50 more than one."""
    chat = CHAT.replace("l40s", "h100-sxm").replace("1.25", "2.5")
    ran = cli("check --json", budget(tmp_path, f'{chat}[deployment.limit]\nmax-tpot = "10ms"\n'))
    said = {one["change"]: one["effect"] for one in ran.result["deployments"][0]["advice"]}
    keeping = [change for change, effect in said.items() if "keeps it" in effect]
    assert list(said)[: len(keeping)] == keeping
    assert said["--tensor-parallel-size 2"].endswith("; 1 GPU more, $2.50 an hour more")
    wider = [change for change in keeping if change.startswith("--tensor-parallel-size")]
    assert wider == sorted(wider)
