"""Readers of traces: units, columns, what is counted."""

import gzip
import json

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.simulator.traces.read import read_trace

AZURE = "\r\n".join(
    (
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951690,396,109",
    )
)
MOONCAKE = [
    {"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]},
]
LOG = [
    {"arrival_s": 5.0, "input_tokens": 30, "output_tokens": 3, "first_token_s": 5.5, "last_token_s": 6.5},
    {"arrival_s": 4.0, "input_tokens": 10, "output_tokens": 1, "first_token_s": 4.1, "last_token_s": 4.1},
]


def lines(records):
    return "\n".join(json.dumps(one) for one in records)


def test_azure_dates_and_line_ends(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(AZURE.encode())
    found = read_trace(str(path))
    assert found.format == "azure"
    assert list(found.requests.prompt) == [374, 396]
    assert found.requests.arrival_s[1] == pytest.approx(4.314579, abs=1e-6)
    assert read_trace(str(path), time_scale=0.5).requests.arrival_s[1] == pytest.approx(2.1572895, abs=1e-6)


def test_gzip_is_read_as_it_is(tmp_path):
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(gzip.compress(lines(MOONCAKE).encode()))
    found = read_trace(str(path))
    assert (found.format, found.requests.id_tokens) == ("mooncake", 512)
    assert found.requests.arrival_s == [0, 3]
    assert found.requests.chains[0] == (0, 1, 2)


def test_llmservingsim_blocks_are_equal_where_their_tokens_are(tmp_path):
    first, second = list(range(40)), [*range(32), 7, 7]
    records = [
        {"input_toks": len(ids), "output_toks": 4, "arrival_time_ns": 2_000_000_000 * i, "input_tok_ids": ids}
        for i, ids in enumerate((first, second, [*range(1, 33)]))
    ]
    path = tmp_path / "s.jsonl"
    path.write_text(lines(records))
    found = read_trace(str(path)).requests
    assert found.chains[0] == found.chains[1]  # two full blocks each, alike
    assert found.chains[2][0] != found.chains[0][0]
    assert found.arrival_s[2] == 4.0


def test_burstgpt(tmp_path):
    path = tmp_path / "b.csv"
    path.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,GPT-4,10,20,30,API\n9,GPT-4,3,0,3,API\n"
    )
    found = read_trace(str(path)).requests
    assert (found.arrival_s, found.output) == ([0, 4], [20, 0])


@pytest.mark.parametrize("write", [lines, json.dumps, lambda rows: json.dumps({"engine": "vllm", "requests": rows})])
def test_logs_are_sorted_counted_and_measured(tmp_path, write):
    path = tmp_path / "log.json"
    path.write_text(write(LOG))
    found = read_trace(str(path))
    assert (found.format, found.unordered) == ("log", 1)
    assert found.requests.arrival_s == [0, 1]
    assert found.measured.ttft_s == pytest.approx((0.1, 0.5))
    assert found.measured.tpot_s == pytest.approx((0.5,))


def test_bench_results(tmp_path):
    result = {"input_lens": [4, 5], "output_lens": [3, 2], "ttfts": [0.1, 0.2], "itls": [[0.01, 0.02], [0.03]],
              "start_times": [10.0, 11.0], "errors": ["", "gone"]}  # fmt: skip
    path = tmp_path / "r.json"
    path.write_text(json.dumps(result))
    found = read_trace(str(path))
    assert found.measured.tpot_s == pytest.approx((0.015,))
    del result["start_times"]
    path.write_text(json.dumps(result))
    with pytest.raises(KvcalcError, match="start_times"):
        read_trace(str(path))


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "no known format: a, b"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnever,1,2\n", "request 1"),
        ('{"arrival_s": 1, "input_tokens": 2, "output_tokens": 2}\n{"arrival_s": 1', "line 2"),
        (
            '{"arrival_s": 1, "input_tokens": 2, "output_tokens": 2}\n{"arrival_s": 1}',
            "request 2 has no 'input_tokens'",
        ),
        ("[]", "no requests"),
        ('{"requests": 3}', "no list of requests"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, said):
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(KvcalcError, match=said):
        read_trace(str(path))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(KvcalcError, match="cannot read"):
        read_trace(str(tmp_path / "none"))
