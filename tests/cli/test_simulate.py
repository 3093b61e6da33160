"""`kvcalc simulate` from the command line."""

import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

LESSON = "simulate llama-3-8b --gpu h100-sxm --engine ideal --step-time 1s --arrivals at-once --isl 1"


def answer(cli: Cli, line: str) -> dict:
    ran = cli(line + " --json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["result"]


def test_continuous_batching_of_the_lesson(cli: Cli) -> None:
    # numpy.random.default_rng(0).integers(1, 33, 200) steps, 8 slots: 454 steps, 96.6 % of the slots, mean 219.470
    found = answer(cli, f"{LESSON} --osl 1-32 --requests 200 --max-num-seqs 8")
    assert found["steps"] == 454
    assert found["slot_use"] == pytest.approx(0.966, abs=5e-4)
    assert found["e2e_s"]["mean"] == pytest.approx(219.470, abs=5e-4)


def test_continuous_batching_of_many(cli: Cli) -> None:
    found = answer(cli, f"{LESSON} --osl 1-256 --requests 1000 --max-num-seqs 32")
    assert found["steps"] == 4301
    assert found["slot_use"] == pytest.approx(0.963, abs=5e-4)


def test_percentiles_have_ranges_and_rates_a_load(cli: Cli) -> None:
    found = answer(cli, "simulate llama-3-8b --gpu h100-sxm --isl 100-2000 --osl 200 --request-rate 10 --requests 300")
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        for one in found[name].values():
            assert one["low"] <= one["value"] <= one["high"]
    assert found["verdict"] == "stable"
    assert 0.3 < found["load"]["value"] < 1
    assert found["preemptions"]["value"] == 0


def test_more_than_can_be_served_is_overloaded(cli: Cli) -> None:
    found = answer(cli, "simulate llama-3-8b --gpu h100-sxm --isl 1k --osl 100 --request-rate 100 --requests 500")
    assert found["verdict"] == "overloaded"
    assert found["load"]["low"] > 1


@pytest.mark.parametrize(
    "flags, said",
    [
        ("--isl 100", "how long are the requests?"),
        ("--isl 100 --osl 10", "when do requests come?"),
        ("--isl 100 --osl 10 --request-rate 1 --concurrency 2", "contradict"),
        ("--isl 200-100 --osl 10 --request-rate 1", "runs from 200 to 100"),
        ("--isl 100M --osl 10 --request-rate 1", "no request can run"),
    ],
)
def test_bad_input(cli: Cli, flags: str, said: str) -> None:
    ran = cli(f"simulate llama-3-8b --gpu h100-sxm {flags}")
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err


def test_static_batches_of_the_lesson(cli: Cli) -> None:
    found = answer(cli, f"{LESSON} --osl 1-32 --requests 200 --max-num-seqs 8 --scheduler static")
    assert found["steps"] == 737
    assert found["slot_use"] == pytest.approx(0.595, abs=5e-4)
    assert found["e2e_s"]["mean"] == pytest.approx(364.865, abs=5e-4)
    found = answer(cli, f"{LESSON} --osl 1-256 --requests 1000 --max-num-seqs 32 --scheduler static")
    assert found["steps"] == 8022
    assert found["slot_use"] == pytest.approx(0.517, abs=5e-4)


def pool(tmp_path: Path) -> str:
    """Request i comes at step 12 i, with 40 + 5 i tokens, and gives 100 + 5 i; 96 blocks, at most 384 tokens each."""
    path = tmp_path / "pool.jsonl"
    rows = ({"arrival_s": 12 * i, "input_tokens": 40 + 5 * i, "output_tokens": 100 + 5 * i} for i in range(8))
    path.write_text("\n".join(json.dumps(row) for row in rows))
    flags = "--engine ideal --step-time 1s --block-size 16 --num-gpu-blocks-override 96 --max-model-len 384"
    return f"simulate llama-3-8b --gpu h100-sxm {flags} --trace {path}"


def test_reserved_cache_of_the_lesson(cli: Cli, tmp_path: Path) -> None:
    found = answer(cli, pool(tmp_path) + " --reservation max")
    assert found["block_fill"] == pytest.approx(0.308, abs=5e-4)
    assert max(moment["running"] for moment in found["timeline"]) == 4
    assert found["duration_s"] == 151 + 135  # the last of 0 12 24 36 100 117 134 151 starts at 151


def test_paged_cache_of_the_lesson(cli: Cli, tmp_path: Path) -> None:
    found = answer(cli, pool(tmp_path))
    assert found["block_fill"] == pytest.approx(0.941, abs=5e-4)
    assert max(moment["running"] for moment in found["timeline"]) == 8
    assert max(moment["blocks"] for moment in found["timeline"]) == 61
    assert found["ttft_s"]["max"] == 1  # each is run on arrival


@pytest.mark.parametrize("reservation, share", [("max", 0.204), ("pow2", 0.268), ("oracle", 0.382), ("none", 0.963)])
def test_use_of_memory_in_the_vllm_paper(cli: Cli, reservation: str, share: float) -> None:
    """Kwon et al. 2023, figure 2: OPT-13B, 15,728 slots; its lengths are not published, only their means."""
    flags = "--engine ideal --step-time 1s --arrivals at-once --requests 600 --isl 161 --isl-sigma 0.9 --osl 338"
    cache = "--osl-sigma 1.0 --max-model-len 2048 --block-size 16 --num-gpu-blocks-override 983"
    line = f"simulate llama-2-13b --gpu a100-sxm-40gb {flags} {cache} --reservation {reservation}"
    found = answer(cli, line)
    assert found["waste"]["tokens"] == pytest.approx(share, abs=0.03)
    assert sum(found["waste"].values()) == pytest.approx(1)
    if reservation == "max":
        assert max(moment["running"] for moment in found["timeline"]) == 15_728 // 2048


def test_refused_and_unordered_rows_are_counted(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n3,10,5\n1,10,0\n2,900000,5\n2.5,20,5\n")
    ran = cli(f"simulate llama-3-8b --gpu h100-sxm --trace {path} --json")
    found = json.loads(ran.out)["result"]
    assert (found["requests"], found["refused"], found["unordered"]) == (4, 2, 1)
    assert "2 of 4 requests are refused" in ran.err
    assert "1 rows of the trace came before an earlier one" in ran.err


SOME = "simulate llama-3-8b --gpu l40s --isl 1k --osl 100 --requests 150"


def test_a_repeated_flag_sweeps_and_gives_what_single_runs_give(cli: Cli) -> None:
    swept = answer(cli, f"{SOME} --request-rate 1 --request-rate 3")["points"]
    assert [point["values"] for point in swept] == [{"request-rate": "1"}, {"request-rate": "3"}]
    for point, rate in zip(swept, (1, 3), strict=True):
        alone = answer(cli, f"{SOME} --request-rate {rate}")
        assert point["result"] == alone | {"timeline": []}  # to the bit


def test_the_highest_rate_keeps_the_targets_and_a_higher_one_does_not(cli: Cli) -> None:
    found = answer(cli, f"{SOME} --find-rate --ttft 1s --tpot 50ms")
    rate = found["highest_rate"]["request_rate"]
    assert rate["low"] <= rate["value"] <= rate["high"]
    for target in found["targets"]:
        assert target["have_s"]["value"] <= target["limit_s"]
    assert any(not point["kept"] for point in found["highest_rate"]["points"])


def test_no_rate_above_what_can_be_served_is_the_highest(cli: Cli) -> None:
    """A hundred requests would keep an hour's target at any rate; a server's queue would grow without end."""
    found = answer(cli, f"{SOME} --find-rate --e2e 1h")
    assert found["load"]["value"] == pytest.approx(1)
    assert found["verdict"] != "overloaded"


@pytest.mark.parametrize(
    "flags, said",
    [("--find-rate", "which targets"), ("--find-rate --ttft 1ms", "not kept at any rate"),
     ("--find-rate --concurrency 4 --ttft 1s", "these requests have none")],
)  # fmt: skip
def test_a_rate_that_cannot_be_found(cli: Cli, flags: str, said: str) -> None:
    ran = cli(f"{SOME} {flags}")
    assert ran.code == 2
    assert said in ran.err


def test_files_of_requests_and_of_the_run(cli: Cli, tmp_path: Path) -> None:
    table, trace = tmp_path / "r.csv", tmp_path / "t.json"
    assert cli(f"{SOME} --request-rate 2 --requests-csv {table} --timeline {trace}").code == 0
    lines = table.read_text().splitlines()
    assert lines[0].startswith("request,sent_s,input_tokens,output_tokens,first_token_s")
    assert len(lines) == 151
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 300
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    assert cli(f"{SOME} --request-rate 2 --timeline /nowhere/t.json").code == 2


def test_replicas(cli: Cli) -> None:
    one, two = (answer(cli, f"{SOME} --request-rate 8 -dp {count}") for count in (1, 2))
    assert two["gpus"] == 2
    assert two["ttft_s"]["p99"]["value"] < one["ttft_s"]["p99"]["value"]
    assert two["load"]["value"] == pytest.approx(one["load"]["value"] / 2, rel=0.1)


def test_a_chunked_prompt_of_the_lesson(cli: Cli, tmp_path: Path) -> None:
    """64 sequences at 1,024 tokens and a prompt of 32,768: 64 chunks of 512 beside them, 0.89 s instead of 0.82 s."""
    rows = [{"arrival_s": 0, "input_tokens": 1024 - 60, "output_tokens": 400} for _ in range(64)]
    path = tmp_path / "lesson.jsonl"
    line = f"simulate llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --max-model-len 40000 --trace {path}"
    path.write_text("\n".join(map(json.dumps, [*rows, {"arrival_s": 2.5, "input_tokens": 32768, "output_tokens": 1}])))
    table = tmp_path / "requests.csv"
    answer(cli, f"{line} --max-num-batched-tokens 576 --requests-csv {table}")
    row = next(row for row in csv.DictReader(table.open()) if row["input_tokens"] == "32768")
    assert float(row["ttft_s"]) == pytest.approx(0.89, abs=0.01)
    path.write_text(json.dumps({"arrival_s": 0, "input_tokens": 32768, "output_tokens": 1}))
    assert answer(cli, f"{line} --max-num-batched-tokens 32768")["ttft_s"]["max"] == pytest.approx(0.82, abs=0.005)


def test_samples_share_their_prompt(cli: Cli) -> None:
    found = answer(cli, f"{LESSON} --isl 100 --osl 10 --requests 4 --samples 3".replace("--isl 1 ", ""))
    sharing = found["sharing"]
    assert (sharing["blocks_unshared"], sharing["blocks_shared"], sharing["blocks_after_first_tokens"]) == (21, 7, 9)
    assert found["requests"] == 12
    assert found["prefix_hit_rate"] > 0


def test_the_host_holds_what_the_gpu_cannot(cli: Cli) -> None:
    """A hundred system prompts of 2,000 tokens in a cache for ten: with the host's memory all are found again."""
    line = "simulate llama-3-8b --gpu h100-sxm --isl 100 --osl 5 --request-rate 5 --requests 600"
    shared = "--shared-prefix 2k --prefix-groups 100 --num-gpu-blocks-override 1300"
    found = answer(cli, f"{line} {shared} --kv-offload-gb 64")
    endless = found["endless_hit_rate"]
    assert endless == pytest.approx(500 * 2000 / (600 * 2100), rel=0.02)  # all but each prompt's first time
    assert found["offload"]["prefix_hit_rate"] == pytest.approx(endless, rel=0.01)
    assert found["prefix_hit_rate"]["value"] < 0.3 * endless
    # 128 KiB a token cannot come faster than PCIe 5 carries them: 63 GB/s
    loaded = found["offload"]["loaded_tokens_per_request"]
    assert found["offload"]["load_s_per_request"] > loaded * 131_072 / 63e9


def test_lengths_drawn_from_a_trace(cli: Cli, tmp_path: Path) -> None:
    """Only pairs that the file has: 100 in and 10 out, or 300 in and 30 out."""
    path, table = tmp_path / "log.csv", tmp_path / "r.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n9,300,30\n10,0,5\n")
    line = f"simulate llama-3-8b --gpu l40s --requests 60 --request-rate 2 --lengths-from {path}"
    assert cli(f"{line} --requests-csv {table}").code == 0
    rows = list(csv.DictReader(table.open()))
    assert {(row["input_tokens"], row["output_tokens"]) for row in rows} == {("100", "10"), ("300", "30")}
    assert "contradict" in cli(f"{line} --isl 100").err


def test_tools_answer_between_requests_of_a_turn(cli: Cli, tmp_path: Path) -> None:
    """Two turns of two calls and an answer: six requests, each with all before it, after the tool or the user."""
    table = tmp_path / "r.csv"
    line = "simulate llama-3-8b --gpu l40s --isl 100 --osl 10 --requests 6 --concurrency 1 --turns 2 --think-time 60s"
    assert cli(f"{line} --tool-calls 2 --tool-time 3s --requests-csv {table}").code == 0
    rows = sorted(csv.DictReader(table.open()), key=lambda row: float(row["sent_s"]))
    assert [row["input_tokens"] for row in rows] == ["100", "210", "320", "430", "540", "650"]
    pauses = [float(b["sent_s"]) - float(a["last_token_s"]) for a, b in pairwise(rows)]
    assert pauses == pytest.approx([3, 3, 60, 3, 3])
    assert "--tool-calls" in cli(f"{line} --tool-time 3s").err


def test_the_lessons_live_lengths(cli: Cli, tmp_path: Path) -> None:
    """default_rng(1).integers(100, 3000, 200): 322,055 tokens in 323,568 slots paged, or in 1,638,400 reserved."""
    import numpy as np

    live = np.random.default_rng(1).integers(100, 3000, 200).tolist()
    path = tmp_path / "live.jsonl"
    rows = ({"arrival_s": 0, "input_tokens": one - 1, "output_tokens": 1} for one in live)
    path.write_text("\n".join(json.dumps(row) for row in rows))
    line = f"simulate llama-3-8b --gpu h100-sxm --engine ideal --step-time 1s --trace {path} --max-model-len 8192"
    room = "--block-size 16 --num-gpu-blocks-override 110000 --max-num-batched-tokens 400000 --max-num-seqs 200"
    assert answer(cli, f"{line} {room}")["block_fill"] == pytest.approx(0.995, abs=5e-4)
    assert answer(cli, f"{line} {room} --reservation max")["block_fill"] == pytest.approx(0.197, abs=5e-4)


def test_when_blocks_run_out(cli: Cli) -> None:
    """Two sequences of 4 + n tokens in five blocks of four: ten tokens each, then the sixth block is missing."""
    line = f"{LESSON.replace('--isl 1', '--isl 4')} --osl 9 --requests 2 --block-size 4"
    found = answer(cli, f"{line} --num-gpu-blocks-override 5")
    assert found["pool_full_s"] == 5
    assert answer(cli, f"{line} --num-gpu-blocks-override 6")["pool_full_s"] is None


def test_the_pool_shows_who_is_stopped(cli: Cli, tmp_path: Path) -> None:
    line = "simulate llama-3-8b --gpu l40s --isl 500 --osl 1k --requests 40 --arrivals at-once --kv-memory 2GB"
    picture = tmp_path / "run.svg"
    ran = cli(f"{line} --max-model-len 4k -o {picture}")
    assert ran.code == 0
    assert "requests are stopped" in picture.read_text()
    found = answer(cli, f"{line} --max-model-len 4k")
    seen = [moment["preemptions"] for moment in found["timeline"]]
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= found["preemptions"]["value"]
    assert cli(f"{line} --max-model-len 4k").out.count("requests are stopped") == 1


def test_what_does_not_fit_is_answered_so(cli: Cli) -> None:
    """70B of bf16 on an L4: the verdict of `size`, in the JSON and at the top of the page, and no latencies."""
    line = "llama-3-70b --gpu l4"
    ran = cli(f"simulate {line} --isl 512 --osl 64 --request-rate 1 --requests 20 --json")
    assert ran.code == 0
    size = cli(f"size {line} --isl 512 --osl 64 --json").result
    assert [ran.result[name] for name in ("fits", "fit", "reason")] == [
        size[name] for name in ("fits", "fit", "reason")
    ]
    assert ran.result["fits"] is False
    assert ran.result["ttft_s"]["p99"] is ran.result["output_tokens_per_s"] is ran.result["verdict"] is None
    page = cli(f"simulate {line} --isl 512 --osl 64 --request-rate 1 --requests 20").out
    assert "does not fit: weights and overhead exceed the memory by" in page.splitlines()[1]
    sweep = cli(f"simulate {line} --gpu h200-sxm -tp 4 --isl 512 --osl 64 --request-rate 1 --requests 20 --json").result
    assert [one["result"]["fits"] for one in sweep["points"]] == [False, True]


def test_a_deployment_that_does_not_start_is_said_so_beside_its_latencies(cli: Cli) -> None:
    """One sequence of max_model_len has no room, and the short requests would have some."""
    page = cli("simulate llama-3-8b --gpu l4 --kv-memory 500MB --isl 512 --osl 64 --request-rate 1 --requests 20").out
    assert "does not fit: one sequence of max_model_len = 8,192 needs more" in " ".join(page.split()[:60])
    assert "TTFT" in page
