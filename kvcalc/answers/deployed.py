"""A question put on its GPUs: weights, memory, pool and what the pool holds. Every command starts here."""

from functools import cached_property
from typing import NamedTuple

from kvcalc.answers.question import Question, runs_beyond
from kvcalc.catalog.kernels import load_kernels
from kvcalc.catalog.prices import bill
from kvcalc.counting.cache import CacheProfile, cache_profile
from kvcalc.counting.layout import pipeline_stages
from kvcalc.engines import cache_dtype, capacity, loaded_weight_bytes, memory_before_cache, rules
from kvcalc.engines.capacity import Capacity, length_of
from kvcalc.engines.contract import Rules
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import BATCHED_TOKENS, Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.price import Bill, Price
from kvcalc.timing.peaks import arithmetic
from kvcalc.timing.price import Machine
from kvcalc.timing.profile import profile_for
from kvcalc.units import format_count

NO_LIMIT_CONTEXT = 8192  # for a model without a maximum, when nothing is said


class OperatingPoint(NamedTuple):
    """Where the figures are evaluated. `context` is the longest that a sequence gets, `mean_context` its average."""

    batch: int | None  # None: nothing fits, or the pool is not predicted
    context: int
    mean_context: int
    beyond: str | None = None  # what the context is above: the model's maximum of 8,192

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.beyond is None else (f"a context of {format_count(self.context)} is above {self.beyond}",)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return () if self.beyond is None else (runs_beyond("context", self.context, self.beyond),)


class Deployed:
    """Computed once, on demand. Bytes are of one GPU, the fullest rank; sequences are of one replica."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.model: ModelSpec = question.model
        self.gpu: GpuSpec = question.the_gpu
        self.deployment: Deployment = question.deployment

    @property
    def engine(self) -> Rules:
        """What this engine is like."""
        return rules(self.deployment.engine)

    @cached_property
    def cache_dtype(self) -> str:
        return cache_dtype(self.model, self.deployment)

    @cached_property
    def state_dtype(self) -> str | None:
        return self.deployment.state_dtype

    @cached_property
    def max_model_len(self) -> int | None:
        return length_of(self.model, self.deployment)

    @cached_property
    def weight_bytes(self) -> int:
        return loaded_weight_bytes(self.model, self.deployment, self.gpu)

    @cached_property
    def budget(self) -> MemoryBudget:
        return memory_before_cache(self.model, self.gpu, self.deployment, self.weight_bytes)

    @cached_property
    def pool_bytes(self) -> int | None:
        return None if self.budget.pool is None else max(0, self.budget.pool.value)

    @cached_property
    def capacity(self) -> Capacity | None:
        """None where the pool is not predicted. Windows keep what one step carries beside their own tokens."""
        if self.pool_bytes is None:
            return None
        resolved = replace(self.deployment, max_num_batched_tokens=self.max_num_batched_tokens)
        return capacity(self.model, resolved, self.pool_bytes)

    @cached_property
    def profile(self) -> CacheProfile:
        """One sequence's cache on one GPU, as the mathematics needs it."""
        return cache_profile(self.model, self.cache_dtype, state_dtype=self.state_dtype, layout=self.deployment.layout)

    def bytes_per_token(self, context: int) -> float:
        """Growth of one sequence's cache on one GPU, in the engine's own layout; no pool is needed to know it."""
        return self._empty.bytes_per_token(context)

    @cached_property
    def needed_bytes(self) -> int:
        """What one sequence of max_model_len takes on one GPU, in whole blocks."""
        return self._empty.needed_bytes()

    @cached_property
    def _empty(self) -> Capacity:
        resolved = replace(self.deployment, max_num_batched_tokens=self.max_num_batched_tokens)
        return capacity(self.model, resolved, 0)

    def longest(self, pool_seen: bool = False) -> int | None:
        """The longest single sequence that could be served, at most max_model_len; None: at no length.

        Args:
            pool_seen: the pool is one that an engine made, so that the card does hold it.
        """
        length, budget = self.max_model_len, self.budget
        if length is None or self.capacity is None:
            return None
        table, kept = budget.request_table, max(0, budget.reserve.value)
        if budget.starts is False and table <= kept and not pool_seen:
            return None
        return self.capacity.estimated_max_model_len(min(length, kept * length // table) if table else length)

    @cached_property
    def fixed_bytes(self) -> int:
        """State of one sequence on one GPU of the fullest pipeline stage."""
        stages = pipeline_stages(self.model, self.deployment.pipeline_parallel_size)
        parts = (
            cache_profile(self.model, self.cache_dtype, self.state_dtype, self.deployment.layout, stage)
            for stage in stages
        )
        return max(part.fixed_bytes for part in parts)

    @cached_property
    def peak_flops(self) -> float:
        """Dense peak of the element type in which most weights multiply."""
        parameters: dict[str, int] = {}
        for group in self.model.groups:
            for tensor in group.tensors:
                if tensor.matmul:
                    compute = tensor.format.compute
                    parameters[compute] = parameters.get(compute, 0) + group.count * tensor.parameters
        most = max(parameters, key=lambda name: parameters[name], default=self.model.dtype)
        return arithmetic(self.gpu, most)[1]

    @cached_property
    def max_num_seqs(self) -> int | None:
        """Sequences that the engine admits to a step; None: it sets no limit."""
        return self.deployment.max_num_seqs or self.int_taken("max_num_seqs")

    @cached_property
    def max_num_batched_tokens(self) -> int:
        """Prompt tokens that one step carries at most."""
        given = self.deployment.max_num_batched_tokens or self.int_taken("max_num_batched_tokens")
        return given or BATCHED_TOKENS

    @cached_property
    def gpu_memory_utilization(self) -> float | None:
        """The engine's share of the card; None: it has no such setting."""
        taken = self._taken("gpu_memory_utilization")
        return self.deployment.gpu_memory_utilization or (taken if isinstance(taken, float) else None)

    def _taken(self, name: str) -> object:
        """A setting that the engine's default supplied."""
        return next((one.value for one in self.budget.assumptions if one.name == name), None)

    def int_taken(self, name: str) -> int | None:
        """A whole number that the engine's default supplied; None: none of this name."""
        value = self._taken(name)
        return value if isinstance(value, int) else None

    @cached_property
    def machine(self) -> Machine:
        """The GPU with its measured kernels, and what this engine adds to them."""
        version = self.deployment.engine_version
        profile = profile_for(self.deployment.engine, version, self.gpu.vendor)
        return Machine(self.gpu, load_kernels(self.gpu), profile, self.gpus_per_node)

    @cached_property
    def bill(self) -> Bill:
        """What the whole deployment costs an hour, and on what price."""
        return bill(self.gpu, self.deployment)

    @property
    def price(self) -> Price | None:
        """Of one GPU and hour: what was given, else the dated list price; None: neither."""
        return self.bill.price

    @cached_property
    def gpus_per_node(self) -> int:
        return self.deployment.gpus_per_node or self.gpu.gpus_per_node

    def max_batch(self, context: int) -> int | None:
        """Whole sequences of this context; None: no limit, or the pool is not predicted."""
        return None if self.capacity is None else self.capacity.max_batch(context)

    def operating_point(self, strict: bool = False) -> OperatingPoint:
        """From --context, --batch and the lengths; `strict` refuses a context above the model's maximum."""
        asked = self.question.workload
        mean = None
        context = asked.context
        if context is None and asked.input_len is not None and asked.output_len is not None:
            context = asked.input_len + asked.output_len
            mean = asked.input_len + asked.output_len // 2
        if context is None:
            context = self.max_model_len or NO_LIMIT_CONTEXT
        beyond = self.beyond(context)
        if beyond is not None and strict:
            raise KvcalcError(
                f"a context of {format_count(context)} is above {beyond}",
                hint="lower context, or raise max-model-len where the model allows it",
            )
        batch = asked.batch or self._default_batch(context)
        return OperatingPoint(batch=batch, context=context, mean_context=mean or context, beyond=beyond)

    def _default_batch(self, context: int) -> int | None:
        fitting = [one for one in (self.max_batch(context), self.max_num_seqs) if one is not None]
        return (min(fitting) or None) if fitting and self.capacity is not None else None

    def concurrency(self, point: OperatingPoint) -> int:
        """Requests in flight on each replica: as asked, but no more than run at once; the rest would queue."""
        asked = self.question.workload.concurrency
        return min(asked or point.batch or 1, self._default_batch(point.context) or 1)

    def beyond(self, tokens: int) -> str | None:
        """The limit that so many tokens are above, in words; None: there is none."""
        longest = self.model.max_context
        limits = [one for one in (longest, self.deployment.max_model_len) if one is not None]
        if not limits or tokens <= min(limits):
            return None
        name = "the model's maximum" if longest == min(limits) else "max_model_len"
        return f"{name} of {format_count(min(limits))}"
