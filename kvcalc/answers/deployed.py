"""A question put on its GPUs: weights, memory, pool and what the pool holds. Every command starts here."""

from functools import cached_property

from kvcalc.answers.question import Question
from kvcalc.catalog.prices import bill
from kvcalc.counting.cache import CacheProfile, cache_profile
from kvcalc.counting.layout import pipeline_stages
from kvcalc.counting.placement import host_part
from kvcalc.counting.prefetch import Prefetch, prefetch_of
from kvcalc.engines import (
    admitted_sequences,
    cache_dtype,
    capacity,
    loaded_weight_bytes,
    memory_before_cache,
    rules,
    with_state_dtypes,
)
from kvcalc.engines.capacity import Capacity, length_of
from kvcalc.engines.contract import Rules
from kvcalc.engines.lowered import Lowered, lowered_length
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.specs.base import Source, replace
from kvcalc.specs.deployment import BATCHED_TOKENS, Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.price import Bill, Price
from kvcalc.timing.estimate import front_end_time
from kvcalc.timing.machine import machine_of
from kvcalc.timing.peaks import networked
from kvcalc.timing.replica import Replica
from kvcalc.units import format_count


class Deployed:
    """Computed once, on demand. Bytes are of one GPU, the fullest rank; sequences are of one replica."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.model: ModelSpec = with_state_dtypes(question.model, question.deployment)
        self.gpu: GpuSpec = networked(question.the_gpu, question.deployment.network_bandwidth_bytes_per_s)
        self.lowered = lowered_length(self.model, self.gpu, question.deployment)
        self.deployment: Deployment = _as_lowered(question.deployment, self.lowered)

    @property
    def engine(self) -> Rules:
        """What this engine is like."""
        return rules(self.deployment.engine)

    @cached_property
    def cache_dtype(self) -> str:
        return cache_dtype(self.model, self.deployment)

    @cached_property
    def max_model_len(self) -> int | None:
        return length_of(self.model, self.deployment)

    @cached_property
    def weight_bytes_per_gpu(self) -> int:
        return loaded_weight_bytes(self.model, self.deployment, self.gpu)

    @cached_property
    def budget(self) -> MemoryBudget:
        return memory_before_cache(self.model, self.gpu, self.deployment, self.weight_bytes_per_gpu)

    @cached_property
    def pool_bytes(self) -> int | None:
        return None if self.budget.pool is None else max(0, self.budget.pool.value)

    @cached_property
    def capacity(self) -> Capacity | None:
        """None where the pool is not predicted. Windows keep what one step carries beside their own tokens."""
        if self.pool_bytes is None:
            return None
        return capacity(self.model, self.resolved, self.pool_bytes)

    @cached_property
    def resolved(self) -> Deployment:
        """The deployment with what a step carries said."""
        return replace(self.deployment, max_num_batched_tokens=self.max_num_batched_tokens)

    @cached_property
    def profile(self) -> CacheProfile:
        """One sequence's cache on one GPU, as the mathematics needs it."""
        return self.replica.cache

    def bytes_per_token(self, context: int) -> float:
        """Growth of one sequence's cache on one GPU, in the engine's own layout; no pool is needed to know it."""
        return self._empty.bytes_per_token(context)

    @cached_property
    def needed_bytes(self) -> int:
        """What one sequence of max_model_len takes on one GPU, in whole blocks."""
        return self._empty.needed_bytes()

    @cached_property
    def _empty(self) -> Capacity:
        return capacity(self.model, self.resolved, 0)

    def longest(self, pool_seen: bool = False) -> int | None:
        """The longest single sequence that is sure to be served, at most max_model_len; None: at no length.

        Args:
            pool_seen: the pool is one that an engine made, so that the card does hold it; else its low end is taken.
        """
        length, budget = self.max_model_len, self.budget
        if length is None or budget.pool is None:
            return None
        held = capacity(self.model, self.resolved, max(0, budget.pool.low))
        table, kept = budget.request_table, max(0, budget.reserve.value)
        if budget.starts is False and table <= kept and not pool_seen:
            return None
        return held.estimated_max_model_len(min(length, kept * length // table) if table else length)

    @cached_property
    def fixed_bytes(self) -> int:
        """State of one sequence on one GPU of the fullest pipeline stage."""
        stages = pipeline_stages(self.model, self.deployment.pipeline_parallel_size)
        parts = (
            cache_profile(self.model, self.cache_dtype, layout=self.deployment.layout, layers=stage) for stage in stages
        )
        return max(part.fixed_bytes for part in parts)

    @cached_property
    def max_num_seqs(self) -> int | None:
        """Sequences that the engine admits to a step; None: it sets no limit."""
        said = self.deployment.max_num_seqs or self.int_taken("max_num_seqs")
        return said or (None if self.capacity is None else admitted_sequences(self.capacity, self.deployment))

    @cached_property
    def max_num_batched_tokens(self) -> int:
        """Prompt tokens that one step carries at most."""
        given = self.deployment.max_num_batched_tokens or self.int_taken("max_num_batched_tokens")
        return self.int_taken("ubatch_size") or given or BATCHED_TOKENS

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
    def replica(self) -> Replica:
        """What every time is worked out from."""
        deployment = self.deployment
        part = host_part(self.model, deployment) if self.engine.OFFLOADS else None
        return Replica(
            model=self.model,
            layout=deployment.layout,
            machine=machine_of(self.gpu, deployment)._replace(offloads=part is not None),
            cache_dtype=self.cache_dtype,
            budget=self.max_num_batched_tokens,
            ideal=not self.engine.TIMED,
            captured=0 if deployment.enforce_eager else self.engine.captured(self.gpu, deployment),
            offload_bytes=0 if self.prefetch else min(deployment.cpu_offload_bytes, self.weight_bytes_per_gpu),
            prefetch=self.prefetch,
            recv_interval=deployment.scheduler_recv_interval or 1,
            ahead=int(self.engine.plans_ahead(deployment.engine_version)),
            host=part,
        )

    @cached_property
    def prefetch(self) -> Prefetch | None:
        """Layers whose weights are fetched from the host."""
        return prefetch_of(self.model, self.deployment)

    @property
    def front_end_s(self) -> float:
        """Seconds of a request before and after the GPU: the server, the tokenizer; nothing with `--engine ideal`."""
        return 0.0 if self.replica.ideal else self.replica.machine.profile.front_end_alone_s

    def front_end_beside(self, clients: int | None) -> float:
        """The same while the server streams the answers of so many clients; None: of many."""
        profile = self.replica.machine.profile
        if self.replica.ideal:
            return 0.0
        return profile.front_end_s if clients is None else float(front_end_time(profile, clients))

    @property
    def lengths(self) -> tuple[int, int] | None:
        """(prompt, answer) of a request; None: not both are given, or nothing is served (`--engine ideal`)."""
        asked = self.question.workload
        if asked.input_len is None or asked.output_len is None or not self.engine.TIMED:
            return None
        return asked.input_len, asked.output_len

    @property
    def never_evicts(self) -> bool:
        """Whether a request keeps room for its whole length from the start."""
        return self.engine.NEVER_EVICTS

    def usable_hit(self, input_len: int) -> int:
        """Cached tokens of each prompt: whole blocks, and its last token is always computed, for its logits.

        None where prefix caching is off.
        """
        if self.deployment.enable_prefix_caching is False:
            return 0
        block = (self.capacity.block_size if self.capacity else None) or 1
        return min(self.question.workload.prefix_hit or 0, input_len - 1) // block * block

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

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where the figures of the model and of the GPU came from."""
        return (*self.model.sources, *self.gpu.sources.values())

    def max_batch(self, context: int) -> int | None:
        """Whole sequences of this context; None: no limit, or the pool is not predicted."""
        return None if self.capacity is None else self.capacity.max_batch(self.slots(context))

    def slots(self, context: int) -> int:
        """Tokens that a sequence of this context has room for: drafted ones too, up to max_model_len.

        Source: KVCacheManager.allocate_slots (num_lookahead_tokens) of vLLM, vllm/v1/core/kv_cache_manager.py
        """
        reach, longest = context + self.deployment.num_speculative_tokens, self.max_model_len
        return reach if longest is None else max(context, min(reach, longest))

    def beyond(self, tokens: int) -> str | None:
        """The limit that so many tokens are above, in words; None: there is none."""
        longest = self.model.max_context
        limits = [one for one in (longest, self.deployment.max_model_len) if one is not None]
        if not limits or tokens <= min(limits):
            return None
        name = "the model's maximum" if longest == min(limits) else "max_model_len"
        return f"{name} of {format_count(min(limits))}"


def _as_lowered(deployment: Deployment, lowered: Lowered | None) -> Deployment:
    """The deployment with the context that its engine settles on."""
    return deployment if lowered is None else replace(deployment, max_model_len=lowered.tokens)
