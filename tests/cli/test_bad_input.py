"""Bad input of every kind ends in one `error:` and one `hint:` line, exit code 2, and nothing on stdout."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.cli import flags as table
from tests.cli.conftest import Cli, assert_refused

SIZE = "size llama-3-8b --gpu h100-sxm"

LINES = [
    "nonsense",
    "szie llama-3-8b",
    "size",
    "size llama-3-8b extra",
    "size llama-3-8b --no-such-flag",
    "size llama-3-8b --gpu",
    "size lama-3-8b --gpu h100-sxm",
    "size ./nowhere/config.json --gpu h100-sxm",
    "size llama-3-8b --gpu h10O-sxm",
    "size llama-3-8b --gpu 'rtx 6000'",  # Turing, Ada or Blackwell?
    f"{SIZE} -tp 3",
    f"{SIZE} -tp 0",
    f"{SIZE} -tp -2",
    f"{SIZE} -tp 2.5",
    f"{SIZE} -tp 99999999999999999999",
    f"{SIZE} -pp 33",
    f"{SIZE} --context 0",
    f"{SIZE} --context -5",
    f"{SIZE} --context 8.5K",
    f"{SIZE} --context 8q",
    f"{SIZE} --context 1e9",
    f"{SIZE} --context 99999999999999999999999999999999999999999999",
    f"{SIZE} --batch 0",
    f"{SIZE} --batch ten",
    f"{SIZE} --kv-memory 50",
    f"{SIZE} --kv-memory 50GBB",
    f"{SIZE} --kv-memory -1GB",
    f"{SIZE} --kv-memory 0GB",
    f"{SIZE} --kv-memory 50gb",
    f"{SIZE} --overhead 3",
    f"{SIZE} --gpu-memory-utilization 0",
    f"{SIZE} --gpu-memory-utilization 1.5",
    f"{SIZE} --gpu-memory-utilization nan",
    f"{SIZE} --price 0",
    f"{SIZE} --price free",
    f"{SIZE} --price inf",
    f"{SIZE} --engine vlmm",
    f"{SIZE} --engine-version new",
    f"{SIZE} --kv-cache-dtype fp7",
    f"{SIZE} --dtype int3",
    f"{SIZE} -q nothing",
    f"{SIZE} --format yaml",
    f"{SIZE} --json --format csv",
    f"{SIZE} -o /nowhere/at/all.txt",
    f"{SIZE} -o /",
    "kv",
    "kv no-such-model",
    "kv llama-3-8b --context 0",
    "kv llama-3-8b --kv-cache-dtype fp7",
    "step llama-3-8b",
    "curve llama-3-8b",
    "curve llama-3-8b --gpu h100-sxm --tpot 50",
    "curve llama-3-8b --gpu h100-sxm --format svg",
    "compare",
    "compare llama-3-8b --gpu nothing",
    "check nowhere.toml",
    "models nothing-like-it",
    "gpus nothing-like-it",
]


@pytest.mark.parametrize("line", LINES)
def test_refused(cli: Cli, line: str) -> None:
    assert_refused(cli(line))


@pytest.mark.parametrize(
    "line, suggestion",
    [
        ("size lama-3-8b --gpu h100-sxm", "llama-3-8b"),
        ("size llama-3-8b --gpu h100-smx", "h100-sxm"),
        ("szie llama-3-8b", "size"),
        ("size llama-3-8b --gpux h100-sxm", "--gpu"),
        ("size llama-3-8b --gpu l4 --users 50", "--users is of `kvcalc plan`"),
        ("curve llama-3-8b --gpu l4 --ttft 1s", "--ttft is of "),
    ],
)
def test_did_you_mean(cli: Cli, line: str, suggestion: str) -> None:
    assert suggestion in cli(line).err


CONFIGS = {
    "empty": b"",
    "not json": b"{",
    "not utf-8": b"\xff\xfe{}",
    "a list": b"[]",
    "a number": b"1",
    "nothing in it": b"{}",
    "NaN": b'{"model_type": "llama", "hidden_size": NaN}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "huge number": b'{"model_type": "llama", "num_hidden_layers": 1' + b"0" * 5000 + b"}",
    "negative": b'{"model_type": "llama", "hidden_size": -1}',
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=CONFIGS.keys())
def test_hostile_configs(cli: Cli, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert_refused(cli("size --gpu h100-sxm", str(path)))


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize("key", [key for key in LLAMA if key != "model_type"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "4", True, [], {}, 10**30])
def test_wrong_values_in_a_config(cli: Cli, tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {key: value}))
    ran = cli("kv --json", str(path))
    assert ran.code == 2, (key, value, ran.out)
    assert_refused(ran)


@pytest.mark.parametrize("value", [0, 1.5, True, [], {}])
def test_a_model_type_that_is_no_text(cli: Cli, tmp_path: Path, value: object) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"model_type": value}))
    assert_refused(cli("kv --json", str(path)))


def test_an_unreadable_config(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert_refused(cli("kv", str(tmp_path / "config.json")))


TEXT_FLAGS = [
    flag
    for group in (table.LAYOUT, table.ENGINE, table.NUMBERS, table.MEMORY, table.COST, table.WORKLOAD)
    for flag in group
    if flag.kind == "text"
]
JUNK = st.one_of(
    st.text(alphabet=string.printable, max_size=30),
    st.text(max_size=10),
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["0", "-0", "1e400", "0x10", "8.5K", "1" * 5000, "１２", "None", "[]", "true", "\x00", "%s", "../.."]
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flag=st.sampled_from(TEXT_FLAGS), value=JUNK)
def test_junk_at_every_option(cli: Cli, flag: table.Flag, value: str) -> None:
    """Either an answer or a clean refusal; never a traceback, never half an answer."""
    ran = cli(f"{SIZE} --json", f"{flag.names[0]}={value}")
    if ran.code == 0:
        assert ran.result["model"] == "llama-3-8b"
    else:
        assert_refused(ran)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(min_size=1, max_size=40).filter(lambda text: not text.startswith("-")))
def test_junk_as_a_model(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ran = cli("kv --json", name)
    if ran.code != 0:
        assert_refused(ran)
