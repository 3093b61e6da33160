"""One start or two? Logs of a few lines, each with what tells its starts apart."""

import pytest
from engines.logs.test_mixed_logs import NAMES, sglang, vllm

from kvcalc.engines.logs import read
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.read import read_log, read_starts
from kvcalc.errors import KvcalcError
from kvcalc.units import GIB, MIB

WEIGHTS = "INFO 06-01 10:01:00 [gpu_model_runner.py:4820] Model loading took {} GiB memory and 9.1 seconds"
POOL = "INFO 06-01 10:01:30 [gpu_worker.py:436] Available KV cache memory: {} GiB"
TOKENS = "INFO 06-01 10:01:31 [kv_cache_utils.py:1319] GPU KV cache size: {} tokens"
CONFIG = "INFO 06-01 10:00:09 [core.py:105] Initializing a V1 LLM engine (v0.19.{0}) with config: model='org/model-{0}'"
ARCHITECTURE = "INFO 06-01 10:00:05 [model.py:555] Resolved architecture: Qwen3ForCausalLM"


def starts(*lines: str) -> tuple[LogFacts, ...]:
    return read_starts("\n".join(lines))


def gib(found: LogFacts) -> tuple[float | None, float | None]:
    """Weights and pool."""
    sizes = (found.weights_bytes, found.pool_bytes)
    return tuple(None if size is None else round(size / GIB, 2) for size in sizes)  # type: ignore[return-value]


def banner(version: str = "0.19.1", process: str = "(APIServer pid=11) ") -> str:
    return f"{process}INFO 06-01 10:00:01 [utils.py:299]   █▄█▀ █  version {version}"


@pytest.mark.parametrize(
    "second, blank, count",
    [
        (banner(), 0, 1),
        (banner(), 59, 1),  # sixty lines below the first
        (banner(), 60, 2),
        (banner(process="(APIServer pid=21) "), 0, 2),
        (banner("0.19.2"), 0, 2),
    ],
)
def test_parts_of_one_banner(second: str, blank: int, count: int) -> None:
    """They are of one process and version, and close together."""
    found = starts(banner(), *[""] * blank, second, f"(Worker_TP0 pid=13) {WEIGHTS.format(11.25)}")
    assert found[-1].starts == count


def test_another_model_after_the_weights_is_another_start() -> None:
    """The first start's beginning is cut away: nothing of it names a model."""
    lines = [f"(EngineCore pid=12) {ARCHITECTURE}", f"(Worker_TP0 pid=13) {WEIGHTS.format(11.25)}"]
    found = starts(*lines, f"(EngineCore pid=22) {CONFIG.format(2)}", f"(Worker_TP0 pid=23) {WEIGHTS.format(12.25)}")
    assert [(one.version, gib(one)[0]) for one in found] == [(None, 11.25), ("0.19.2", 12.25)]


def test_a_model_before_any_weights_is_of_the_same_start() -> None:
    found = starts(f"(EngineCore pid=12) {ARCHITECTURE}", f"(EngineCore pid=12) {CONFIG.format(2)}",
                   f"(Worker_TP0 pid=13) {WEIGHTS.format(11.25)}")  # fmt: skip
    assert [(one.version, one.architecture, one.starts) for one in found] == [("0.19.2", "Qwen3ForCausalLM", 1)]


def test_a_worker_of_another_process_is_a_restart() -> None:
    found = starts(
        *vllm(1).lines, f"(Worker_TP0 pid=23) {WEIGHTS.format(12.25)}", f"(Worker_TP0 pid=23) {POOL.format(9.5)}"
    )
    assert [gib(one) for one in found] == [(11.25, 27.75), (12.25, 9.5)]


def test_after_two_starts_it_may_be_of_either() -> None:
    found = starts(*vllm(1).lines, *vllm(2).lines, f"(Worker_TP0 pid=33) {POOL.format(9.5)}")
    assert {one.model for one in found} == {"org/model-1", "org/model-2"}
    assert int(9.5 * GIB) not in {one.pool_bytes for one in found}
    assert any("lines of capacity that could be of either" in line for line in found[-1].unused)


@pytest.mark.parametrize(
    "lines, sizes",
    [
        # Weights are loaded once, and before the pool is known.
        ([WEIGHTS.format(11.25), POOL.format(20.75), WEIGHTS.format(11.25)], [(11.25, 20.75), (11.25, None)]),
        ([WEIGHTS.format(11.25), WEIGHTS.format(11.25), POOL.format(20.75)], [(11.25, 20.75)]),
        # The same figure again is the same start, another one another's.
        ([WEIGHTS.format(11.25), POOL.format(20.75), TOKENS.format(900), POOL.format(20.75)], [(11.25, 20.75)]),
        ([POOL.format(20.75), TOKENS.format(900), POOL.format(21.75)], [(None, 20.75), (None, 21.75)]),
    ],
)
def test_a_start_goes_forward(lines: list[str], sizes: list[tuple[float, float]]) -> None:
    assert [gib(one) for one in starts(*lines)] == sizes


def test_lines_of_two_starts_in_turn_are_of_none() -> None:
    """Without names of processes: the second figure came before the first start went on."""
    lines = [line for pair in zip(vllm(1, "0.9").lines, vllm(2, "0.9").lines, strict=True) for line in pair]
    for one in starts(*lines):
        assert {name: getattr(one, name) for name in NAMES if name.endswith("bytes") or name == "tokens"} == {
            "weights_bytes": None, "pool_bytes": None, "free_after_load_bytes": None, "tokens": None,
        }  # fmt: skip


@pytest.mark.parametrize("second, size", [(26.5, 26.5), (26.2, 26.2), (26.0, None), (27.6, 26.91), (27.8, None)])
def test_ranks_of_tensorrt_llm_differ_a_little(second: float, size: float | None) -> None:
    """Its ranks are not named; their pools differ by less than three hundredths, and the smallest counts."""
    line = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {} GiB for max tokens in paged KV cache (220480)."
    found = starts("[TensorRT-LLM] TensorRT-LLM version: 0.17.0", line.format(26.91), line.format(second))
    assert found[-1].pool_bytes == (None if size is None else int(size * GIB))


def test_a_line_of_no_engine_is_of_the_last_that_spoke() -> None:
    first, second = vllm(1), sglang(2)
    found = starts(*first.lines[:3], *second.lines, *first.lines[3:], "GPU 0: NVIDIA H100 80GB HBM3")
    assert {one.engine: one.gpu for one in found} == {"sglang": None, "vllm": "NVIDIA H100 80GB HBM3"}


LONG = (
    "model weights take 8.63GiB; non_torch_memory takes 0.09GiB; PyTorch activation peak memory takes 1.16GiB; the "
    "rest of the memory reserved for KV Cache is 45.21GiB."
)


@pytest.mark.parametrize("parts, read_whole", [(2, True), (3, True), (4, True), (5, False)])
def test_a_line_goes_on_for_three_more(parts: int, read_whole: bool) -> None:
    words = LONG.split()
    each = -(-len(words) // parts)
    wrapped = [" ".join(words[at : at + each]) for at in range(0, len(words), each)]
    assert len(wrapped) == parts
    found = starts(WEIGHTS.format(8.5), *wrapped)[0]
    assert (found.activation_bytes == int(1.16 * GIB)) is read_whole


def test_buffers_of_llama_cpp() -> None:
    """Layers with and without a window have caches of their own; a buffer that is named again is made anew."""
    found = read_log(
        "build: 5200 (2d451c80) with cc for x86_64-linux-gnu\n"
        "load_tensors:        CUDA0 model buffer size = 4000.00 MiB\n"
        "load_tensors:        CUDA0 model buffer size = 4100.00 MiB\n"
        "llama_kv_cache_unified:      CUDA0 KV buffer size =   192.00 MiB\n"
        "llama_kv_cache_unified: size =  192.00 MiB (  8192 cells,  12 layers,  1/1 seqs), K (f16):  96.00 MiB, "
        "V (f16):  96.00 MiB\n"
        "llama_kv_cache_unified:      CUDA0 KV buffer size =    18.00 MiB\n"
        "llama_kv_cache_unified: size =   18.00 MiB (   768 cells,  12 layers,  1/1 seqs), K (f16):   9.00 MiB, "
        "V (f16):   9.00 MiB\n"
    )
    assert (found.weights_bytes, found.pool_bytes) == (4100 * MIB, 210 * MIB)
    assert (found.tokens, found.cache_bytes) == (8192, 210 * MIB)


def test_a_pool_of_nothing_misses_nothing() -> None:
    found = read_log(POOL.format("0.00"))
    assert (found.pool_bytes, found.short_bytes) == (0, None)


REFUSED = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"


def test_of_many_notes_the_first_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST_NOTES", 2)
    found = read_log("\n".join([REFUSED] * 3 + [ARCHITECTURE] * 3))
    assert [one.number for one in found.refusals] == [1, 2]
    assert [one.number for one in found.lines] == [4, 5]


def test_of_many_containers_the_last_are_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST_STREAMS", 2)
    lines = [f"{name} | {WEIGHTS.format(11.25)}" for name in ("a", "b", "c")]
    assert [gib(one) for one in starts(*lines, f"d | {POOL.format(20.75)}")] == [
        (11.25, None), (11.25, None), (11.25, 20.75),
    ]  # fmt: skip


def test_lines_that_contradict_each_other_are_said_to() -> None:
    """Ranks of TensorRT-LLM print the same line without a name; two pools that differ by 5 % may be of two starts."""
    line = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {} GiB for max tokens in paged KV cache ({})."
    with pytest.raises(KvcalcError, match="contradict each other") as found:
        read_log("\n".join((line.format("40.00", 327680), line.format("38.00", 311296))))
    assert "one start" in found.value.hint
