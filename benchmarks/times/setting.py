"""Setting: what a performance case says of the model's shape, the layout, the machine and the load, resolved."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from times.shapes import shape

from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.layout import rank_weights
from kvcalc.counting.weights import weight_bytes
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Layout
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import Kernels
from kvcalc.specs.model import ModelSpec
from kvcalc.timing.engine_profiles import Profile, choose
from kvcalc.timing.machine import Machine, maker_of, with_profile
from kvcalc.timing.prompts import Requests
from kvcalc.timing.replica import Replica

Case = Mapping[str, Any]
ENGINES = {
    "vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm", "TensorRT-LLM-based": "trtllm",
    "gpt-fast": "gpt-fast",
}  # fmt: skip
SERVERS = ("vllm", "sglang", "trtllm")
# Versions that cases give as words or dates. The branch for gpt-oss of August 2025 is between 1.0 and 1.1.
DATED = {("vllm", "mid-2024"): "0.5", ("trtllm", "mid-2024"): "0.10", ("trtllm", "gpt-oss-dev"): "1.0"}
# InferenceX's launch scripts and images where its rows leave them out (github.com/SemiAnalysisAI/InferenceX,
# benchmarks/*.sh and .github/configs/nvidia-master.yaml): SGLang on Blackwell looks for requests every 10 steps, with
# 16 clients or more every 30; TensorRT-LLM ran mxfp4 on H200 from the image gpt-oss-dev, fp8 from 1.1.
LAUNCHED = "InferenceX"
SPARSE_LOOKS, MANY_CLIENTS = (10, 30), 16
IMAGES = {("trtllm", "mxfp4", "h200-sxm"): "1.0", ("trtllm", "fp8", "h200-sxm"): "1.1"}
UNSAID = {"vllm": "0.11", "sglang": "0.5.3"}  # the images of 2025, when those rows were made
BLACKWELL = ("10.0", "10.3")
YEARS = {("vllm", 2023): "0.2", ("trtllm", 2023): "0.5", ("trtllm", 2024): "0.9"}
DRAWN = 1 / 9  # InferenceX draws from 0.8 to 1 of a length: a ninth of the mean either way
WHOLE_FILES = ("f16", "mxfp4")  # formats that say how every tensor of a file is stored
FINE_EXPERTS = 128  # from so many on; Mixtral in fp8 has one scale a tensor
RESERVED_BYTES = 2e9  # on each GPU, beside weights and cache
POOL_SHARE = 0.9


@dataclass(frozen=True)
class Setting:
    case: Case
    model: ModelSpec
    layout: Layout
    gpu: GpuSpec
    engine: str
    version: str | None
    cache_dtype: str
    input_len: float
    output_len: float
    kernels: Kernels | None = None  # in place of the shipped ones
    busy: bool = False  # the GPU never pauses

    @property
    def routed(self) -> bool:
        return "experts" in self.case["dims"]

    @property
    def ragged(self) -> bool:
        """Lengths are drawn from a range where the case gives their mean as a share of the nominal."""
        return bool(self.case.get("len_scale", 1) < 1)

    @property
    def context(self) -> float:
        """Mean cached tokens over the decode: all of the prompt, half of the answer; else what the case says."""
        if self.input_len or self.output_len:
            return self.input_len + self.output_len / 2
        return float(self.case.get("context") or 1)

    @property
    def length(self) -> float:
        """Tokens of a request when it ends."""
        return self.input_len + self.output_len or self.context

    @property
    def batch(self) -> float:
        batch = self.case.get("batch")
        if not isinstance(batch, int | float):
            raise KvcalcError("the case states no batch", hint="state batch")
        return float(batch)

    def profile(self, known: tuple[Profile, ...]) -> Profile:
        return choose(known, self.engine, self.version, maker_of(self.gpu))

    def machine(self, profile: Profile) -> Machine:
        shipped = _machine(self.gpu.name, profile)
        return shipped if self.kernels is None else shipped._replace(kernels=self.kernels)

    def replica(self, profile: Profile) -> Replica:
        """What the commands time, with constants that a refit tries."""
        machine = self.machine(profile)._replace(busy=self.busy)
        return Replica(
            self.model,
            self.layout,
            machine,
            self.cache_dtype,
            recv_interval=self.recv_interval,
            ahead=int(rules(self.engine).plans_ahead(self.version)) if self.engine in SERVERS else 0,
        )

    @property
    def recv_interval(self) -> int:
        """Steps between two looks for requests."""
        said = LAUNCHED in str(self.case.get("notes"))
        if not said or self.engine != "sglang" or self.gpu.compute_capability not in BLACKWELL:
            return 1
        return SPARSE_LOOKS[self.batch >= MANY_CLIENTS]

    @property
    def held(self) -> float:
        """Tokens that one request takes of the pool: all that it may need where the engine evicts nothing."""
        return self.length if self.engine == "trtllm" else self.context

    @property
    def requests(self) -> Requests:
        return Requests(self.input_len, self.output_len, equal=not self.ragged, spread=DRAWN)

    def split(self, tp: int, pp: int) -> "Setting":
        """The same on so many ranks and stages."""
        return replace(self, layout=replace(self.layout, tensor_parallel_size=tp, pipeline_parallel_size=pp))

    def capacity(self, tokens: float, share: float = POOL_SHARE) -> float:
        """Sequences of so many tokens that the pool of one replica holds: a share of what is free."""
        pool = share * (self.gpu.memory_bytes - RESERVED_BYTES - self._weights())
        each = cache_profile(self.model, self.cache_dtype, layout=self.layout).stored(int(tokens))
        return max(0.0, pool / each * self.layout.pipeline_parallel_size)

    def _weights(self) -> float:
        """Bytes of weights on the fullest GPU; an even share of a model that does not divide by the layout."""
        try:
            return rank_weights(self.model, self.layout).fullest
        except KvcalcError:
            return weight_bytes(self.model) / self.layout.gpus


@cache
def _machine(gpu: str, profile: Profile) -> Machine:
    return with_profile(load_gpu(gpu), profile)


def forget_machines() -> None:
    """The kernels were written since."""
    _machine.cache_clear()


@cache
def _shape(dims: str, weights_dtype: str, file_bytes: float | None) -> ModelSpec:
    return shape(json.loads(dims), weights_dtype, file_bytes)


def setting_of(case: Case) -> Setting:
    """The setting of a case that has dims.

    Raises:
        KvcalcError: it states something that cannot be resolved.
    """
    if "dims" not in case:
        raise KvcalcError("the case states no dims", hint="state the model's dimensions")
    engine = "mlperf" if str(case.get("engine_version", "")).startswith("MLPerf") else ENGINES.get(case["engine"])
    engine = engine or "any"
    scale = case.get("len_scale", 1)
    weights_dtype = _weights(case)
    file_bytes = case.get("weights_file_bytes") if weights_dtype not in WHOLE_FILES else None
    cache_dtype = str(case.get("kv_dtype") or "bf16")
    replicas = _replicas(case)
    return Setting(
        case=case,
        model=_shape(json.dumps(case["dims"]), weights_dtype, file_bytes),
        layout=Layout(
            tensor_parallel_size=case.get("tp") or 1,
            pipeline_parallel_size=case.get("pp") or 1,
            data_parallel_size=replicas,
            enable_expert_parallel=case.get("ep", 1) > 1 or replicas > 1,
        ),
        gpu=load_gpu(case["gpu"]),
        engine=engine,
        version=_version(case, engine),
        cache_dtype={"f16": "bf16", "fp16": "bf16"}.get(cache_dtype, cache_dtype),
        input_len=(case.get("input_len") or 0) * scale,
        output_len=(case.get("output_len") or 0) * scale,
    )


def _weights(case: Case) -> str:
    """The element type of the weights. DeepSeek and Qwen publish their mixtures in fp8 with scales by block."""
    said, experts = str(case.get("weights_dtype", "bf16")), case["dims"].get("experts", 0)
    return "fp8_block" if said == "fp8" and experts >= FINE_EXPERTS else said


def _replicas(case: Case) -> int:
    """Replicas of attention that share experts: GPUs beyond tensor and pipeline parallelism, of a stated layout."""
    if not case.get("tp") or "experts" not in case["dims"]:
        return 1
    return max(1, int(case.get("n_gpus", 1) // (case["tp"] * case.get("pp", 1))))


def _version(case: Case, engine: str) -> str | None:
    said = str(case.get("engine_version") or "")
    if (engine, said) in DATED:
        return DATED[engine, said]
    if not said and LAUNCHED in str(case.get("notes")):
        image = engine, case.get("weights_dtype", ""), load_gpu(case["gpu"]).name
        return IMAGES.get(image, UNSAID.get(engine))
    if said[:1].isdigit() and not said.startswith("20"):
        return said
    return YEARS.get((engine, case.get("year", 0))) if not said or said.startswith("20") else None
