"""Logs that are cut, interleaved, wrapped or mixed: no figure is made up, and none is taken from another start.

The logs are written here from the engines' own wording; every figure of one is its own, so that a stray one is seen.
"""

import contextlib
import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.engines.logs.read import read_log, read_starts
from kvcalc.errors import KvcalcError
from kvcalc.units import GIB


class Written(NamedTuple):
    lines: list[str]
    facts: dict[str, object]


def vllm(n: int, style: str = "0.19") -> Written:
    """A vLLM start; `n` makes its figures its own. Processes are named as since 0.10, or not at all, as before."""
    pool, tokens = 20 + 7 * n, 100_000 + 1_111 * n
    api, core, work = (f"(APIServer pid={n}1) ", f"(EngineCore pid={n}2) ", f"(Worker_TP0 pid={n}3) ")
    version = {"0.19": f"0.19.{n}", "0.26": f"0.26.{n}", "0.9": f"0.9.{n}"}[style]
    if style == "0.9":
        api = core = work = ""
    banner = {
        "0.9": f"INFO 06-01 10:00:01 [api_server.py:1289] vLLM API server version {version}",
        "0.19": f"{api}INFO 06-01 10:00:01 [utils.py:299]   █▄█▀ █  version {version}",
        "0.26": f"{api}INFO 06-01 10:00:01 [api_utils.py:339]   █▄█▀ █  version {version}",
    }[style]
    return Written(
        [
            banner,
            f"{api}INFO 06-01 10:00:02 [utils.py:233] non-default args: {{'model': 'org/model-{n}', 'max_model_len': "
            f"{4096 * n}}}",
            f"{core}INFO 06-01 10:00:09 [core.py:105] Initializing a V1 LLM engine (v{version}) with config: "
            f"model='org/model-{n}', max_seq_len={4096 * n}, tensor_parallel_size={n}",
            f"{work}INFO 06-01 10:01:00 [gpu_model_runner.py:4820] Model loading took {10 + n}.25 GiB memory and 9.1 s",
            f"{work}INFO 06-01 10:01:30 [gpu_worker.py:436] Available KV cache memory: {pool}.75 GiB",
            f"{core}INFO 06-01 10:01:31 [kv_cache_utils.py:1319] GPU KV cache size: {tokens:,} tokens",
            f"{core}INFO 06-01 10:01:31 [kv_cache_utils.py:1324] Maximum concurrency for {4096 * n:,} tokens per "
            f"request: {n}.5x",
        ],
        {
            "version": version,
            "model": f"org/model-{n}",
            "weights_bytes": int((10 + n + 0.25) * GIB),
            "pool_bytes": int((pool + 0.75) * GIB),
            "tokens": tokens,
            "concurrency": n + 0.5,
        },
    )


def sglang(n: int) -> Written:
    tokens = 300_000 + 1_717 * n
    return Written(
        [
            f"[2026-06-01 10:00:01] server_args=ServerArgs(model_path='lab/net-{n}', tp_size={n}, "
            f"mem_fraction_static=0.8{n})",
            f"[2026-06-01 10:00:20] Load weight begin. avail mem={70 + n}.63 GB",
            f"[2026-06-01 10:01:12] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem={50 + n}.09"
            f" GB, mem usage={15 + n}.54 GB.",
            f"[2026-06-01 10:01:30] max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384,"
            f" max_running_requests=32, context_len={8192 * n}, available_gpu_mem=9.12 GB",
        ],
        {
            "model": f"lab/net-{n}",
            "weights_bytes": int((15 + n + 0.54) * GIB),
            "free_after_load_bytes": int((50 + n + 0.09) * GIB),
            "tokens": tokens,
        },
    )


ENGINES = {
    "vllm 0.9": lambda n: vllm(n, "0.9"),
    "vllm 0.19": lambda n: vllm(n, "0.19"),
    "vllm 0.26": lambda n: vllm(n, "0.26"),
    "sglang": sglang,
}
NAMES = ("version", "model", "weights_bytes", "pool_bytes", "tokens", "concurrency", "free_after_load_bytes")


def said(found: object) -> dict[str, object]:
    values = {name: getattr(found, name) for name in NAMES}
    return {name: value for name, value in values.items() if value is not None}


def of_one_start(found: object, written: list[Written]) -> bool:
    return any(said(found).items() <= one.facts.items() for one in written)


pairs = st.tuples(st.sampled_from(sorted(ENGINES)), st.sampled_from(sorted(ENGINES)))


@given(pairs)
def test_two_starts_one_after_the_other(names: tuple[str, str]) -> None:
    first, second = ENGINES[names[0]](1), ENGINES[names[1]](2)
    starts = read_starts("\n".join(first.lines + second.lines))
    assert [said(start) for start in starts] == [first.facts, second.facts]
    assert starts[-1].starts == 2
    assert len(starts[-1].others) == 1


@given(pairs, st.data())
def test_two_starts_cut_at_any_line(names: tuple[str, str], data: st.DataObject) -> None:
    written = [ENGINES[names[0]](1), ENGINES[names[1]](2)]
    kept = [one.lines[data.draw(st.integers(0, len(one.lines))) :] for one in written]
    kept = [lines[: data.draw(st.integers(0, len(lines)))] for lines in kept]
    if names[0].split()[0] == names[1].split()[0] and not has_beginning(kept[1]):
        return  # without its banner, the second start cannot be told from the first going on
    with contextlib.suppress(KvcalcError):
        assert of_one_start(read_log("\n".join(kept[0] + kept[1])), written)


def has_beginning(lines: list[str]) -> bool:
    return any("version" in line or "LLM engine" in line or "server_args" in line for line in lines)


@given(st.tuples(st.sampled_from(["vllm 0.19", "vllm 0.26"]), st.sampled_from(sorted(ENGINES))), st.data())
def test_two_starts_interleaved(names: tuple[str, str], data: st.DataObject) -> None:
    """Lines that name their process, or their engine, go to their own start; the others to none."""
    written = [ENGINES[names[0]](1), ENGINES[names[1]](2)]
    left = [list(one.lines) for one in written]
    mixed: list[str] = []
    while any(left):
        which = data.draw(st.sampled_from([i for i, lines in enumerate(left) if lines]))
        mixed.append(left[which].pop(0))
    for start in read_starts("\n".join(mixed)):
        assert of_one_start(start, written), (said(start), mixed)


@given(st.data())
def test_containers_of_one_compose_log(data: st.DataObject) -> None:
    """docker compose names the container in front of each line; that is enough to tell equal engines apart."""
    written = [vllm(1, "0.9"), vllm(2, "0.9"), sglang(3)]
    left = [[f"server-{i}  | {line}" for line in one.lines] for i, one in enumerate(written)]
    mixed: list[str] = []
    while any(left):
        which = data.draw(st.sampled_from([i for i, lines in enumerate(left) if lines]))
        mixed.append(left[which].pop(0))
    found = {str(one.model): said(one) for one in read_starts("\n".join(mixed))}
    assert found == {str(one.facts["model"]): one.facts for one in written}


@given(st.sampled_from(sorted(ENGINES)), st.integers(20, 120))
def test_wrapped_lines_are_read_or_left_out(name: str, width: int) -> None:
    one = ENGINES[name](1)
    wrapped = [line[at : at + width] for line in one.lines for at in range(0, len(line), width)]
    with contextlib.suppress(KvcalcError):
        found = read_log("\n".join(wrapped))
        assert said(found).items() <= one.facts.items(), wrapped


@given(st.sampled_from(sorted(ENGINES)), st.integers(50, 100))
def test_lines_that_are_wrapped_between_words_are_read(name: str, width: int) -> None:
    import textwrap

    one = ENGINES[name](1)
    wrapped = [part for line in one.lines for part in textwrap.wrap(line, width, break_on_hyphens=False)]
    found = said(read_log("\n".join(wrapped)))
    assert found.items() <= one.facts.items()
    assert {"tokens", "weights_bytes"} <= found.keys()


@given(pairs, st.data())
def test_every_figure_stands_in_the_text(names: tuple[str, str], data: st.DataObject) -> None:
    """Cut, interleaved, wrapped and mixed at once: each figure is one that the text has, digit for digit."""
    lines = ENGINES[names[0]](1).lines + ENGINES[names[1]](2).lines
    lines = data.draw(st.permutations(lines))[: data.draw(st.integers(0, len(lines)))]
    width = data.draw(st.integers(30, 200))
    text = "\n".join(line[at : at + width] for line in lines for at in range(0, len(line), width))
    with contextlib.suppress(KvcalcError):
        for start in read_starts(text):
            for name, value in said(start).items():
                assert stands_in(name, value, text), (name, value, text)


def stands_in(name: str, value: object, text: str) -> bool:
    joined = text.replace("\n", "")
    if name in ("model", "version"):
        return str(value) in joined
    numbers = [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", joined)]
    return value in ([int(number * GIB) for number in numbers] if name.endswith("bytes") else numbers)


NONSENSE = [
    ("Available KV cache memory: 500.00 GiB\nFree memory on device (70.12/79.19 GiB) on startup is less than desired "
     "GPU memory utilization (0.9, 71.27 GiB).", "pool_bytes", "a pool of"),
    ("Model loading took 99999999.0 GiB memory", "weights_bytes", "weights of"),
]  # fmt: skip


@pytest.mark.parametrize("text, name, told", NONSENSE)
def test_nonsense_is_named_and_not_used(text: str, name: str, told: str) -> None:
    found = read_log("GPU KV cache size: 1,000 tokens\n" + text)
    assert getattr(found, name) is None
    assert any(told in line for line in found.unused)


def test_a_pool_below_zero_is_what_was_missing() -> None:
    found = read_log("Available KV cache memory: -3.50 GiB\nValueError: No available memory for the cache blocks.")
    assert (found.pool_bytes, found.short_bytes) == (0, int(3.5 * GIB))
