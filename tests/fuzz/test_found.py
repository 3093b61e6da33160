"""What fuzzing has found, one of each kind: refused now, in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.bench.test_read import VLLM
from tests.catalog.gguf_bytes import decoder, gguf
from tests.catalog.headers.test_settle import CONFIG
from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401
from tests.simulator.test_traces import LOG, MOONCAKE

SIMULATED = "simulate smollm2-135m --gpu l4 "
FITTED = "calibrate --model smollm2-135m --gpu l4 --from "


def lines(records: list[Any], **other: Any) -> str:
    return "\n".join(json.dumps(one | other) for one in records)


@pytest.mark.parametrize("line, text", [
    (SIMULATED + "--trace ", lines(MOONCAKE, hash_ids=[[1], [2]])),
    (SIMULATED + "--trace ", lines(LOG, arrival_s=float("nan"))),
    (SIMULATED + "--trace ", lines(LOG, arrival_s=10**400)),
    (SIMULATED + "--isl 9 --osl 9 --request-rate 5 --requests 9 --calibrate-from ", lines(LOG, last_token_s=5.5,
                                                                                          first_token_s=5.5)),
    (FITTED, json.dumps(VLLM | {"total_output_tokens": 0})),
    (FITTED, json.dumps(VLLM | {"mean_tpot_ms": float("inf")})),
])  # fmt: skip
def test_files(cli: Cli, tmp_path: Path, line: str, text: str) -> None:  # noqa: F811
    path = tmp_path / "file"
    path.write_text(text)
    assert_refused(cli(line + str(path)))


def test_one_token_out_has_no_pace(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "results.json"
    path.write_text(json.dumps(VLLM | {"total_output_tokens": VLLM["completed"]}))
    assert cli(FITTED + str(path)).code == 0


def test_a_shape_that_is_no_number(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    header = json.dumps({"a": {"dtype": "BF16", "shape": [[1], 10**18], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert_refused(cli(f"kv {tmp_path}"))


def test_metadata_that_contradict_each_other(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    metadata, tensors = decoder(1)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(metadata | {"llama.attention.head_count": 5000}, tensors))  # more heads than columns
    assert_refused(cli(f"kv {path}"))


def test_a_price_file_is_read_again_when_it_has_changed(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path, found = tmp_path / "prices.toml", []
    for usd in (2, 10):
        path.write_text(f"[usd_per_gpu_hour]\nl4 = {usd}\n")
        found.append(cli(f"size smollm2-135m --gpu l4 --context 1k --price-file {path} --json").result["usd_per_hour"])
    assert found == [2, 10]


def test_infinity_in_a_key_that_nobody_knows(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"some_unknown_window": float("inf")}))
    values = {one["name"]: one["value"] for one in cli(f"kv {path} --json").json["assumptions"]}
    assert values["some_unknown_window"] == "inf"


def test_a_name_that_no_file_can_have(cli: Cli) -> None:  # noqa: F811
    assert_refused(cli(f"size llama-3-8b --gpu h100-sxm{'0' * 300}"))
    assert_refused(cli(f"size llama-3-8b --gpu h100/{'0' * 5000}"))


def test_a_message_stays_short_whatever_it_quotes(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "budget.toml"
    path.write_text(f"schema = {[10**15] * 5000}\n")
    refused = cli(f"check {path}")
    assert_refused(refused)
    assert len(refused.err) < 1500


def test_a_prompt_in_very_many_steps(cli: Cli) -> None:  # noqa: F811
    line = "size llama-3.1-8b --gpu h100-sxm --isl 100k --osl 100 --max-num-batched-tokens 1 --price 2 --json"
    ttft = cli(line).result["serving"]["ttft_alone_s"]["value"]
    assert 50_000 * 7e-3 < ttft < 100_000 * 30e-3  # a hundred thousand steps, each some five milliseconds and more


def test_requests_longer_than_the_model_were_not_measured(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "results.json"
    path.write_text(json.dumps(VLLM | {"total_input_tokens": 2**31}))
    refused = cli(FITTED + str(path))
    assert_refused(refused)
    assert "max_model_len" in refused.err


def test_an_index_that_names_what_no_folder_can_have(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "x" * 300}}))
    refused = cli(f"kv {tmp_path}")
    assert_refused(refused)
    assert "impossible files" in refused.err


def test_a_vocabulary_that_is_no_matrix(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    metadata, tensors = decoder(1)
    tensors["token_embd.weight"] = ((256,), tensors["token_embd.weight"][1])
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(metadata, tensors))
    assert_refused(cli(f"kv {path}"))
