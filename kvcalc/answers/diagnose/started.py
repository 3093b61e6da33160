"""A started engine: what its log says, the specs behind it, and what is predicted; worked out once, on demand."""

from functools import cached_property

from kvcalc.answers.diagnose.start import Logged
from kvcalc.engines import capacity, loaded_weight_bytes, memory_before_cache, rules
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.engines.memory.start import Observed
from kvcalc.errors import KvcalcError
from kvcalc.specs.build import build

OTHER_CHECKPOINT = 0.1  # of the weights; what loading adds is a few percent


class Started:
    """One start of an engine."""

    def __init__(self, facts: LogFacts, specs: Logged) -> None:
        self.facts, self.specs = facts, specs
        self.deployment = specs.deployment
        self.rules = rules(specs.deployment.engine)

    @property
    def pool(self) -> int | None:
        """Bytes for the cache as printed, else the caches that were announced."""
        facts = self.facts
        return facts.pool_bytes if facts.pool_bytes is not None else facts.cache_bytes

    @property
    def length(self) -> int | None:
        """max_model_len, where the log says it."""
        length = self.facts.settings.get("max_model_len")
        return length if isinstance(length, int) and length > 0 else None

    @cached_property
    def weights(self) -> int | None:
        """Predicted bytes on one GPU."""
        specs = self.specs
        return None if specs.model is None else loaded_weight_bytes(specs.model, specs.deployment, specs.gpu)

    @property
    def same_file(self) -> bool:
        """A GGUF stores each tensor in a type of its own: only the file itself says what llama.cpp loads."""
        model = self.specs.model
        return not self.rules.WEIGHTS_AS_IN_FILE or (model is not None and model.weight_file_bytes is not None)

    @property
    def other_checkpoint(self) -> bool:
        """Whether the log's weights are so unlike the predicted ones that another checkpoint was served."""
        if not self.facts.weights_bytes or not self.weights:
            return False
        return abs(self.facts.weights_bytes / self.weights - 1) > OTHER_CHECKPOINT

    @cached_property
    def budget(self) -> MemoryBudget | None:
        """Memory before the cache, with the weights that the log names where they are another checkpoint's."""
        specs, facts = self.specs, self.facts
        weights = facts.weights_bytes if self.other_checkpoint else self.weights
        if specs.model is None or specs.gpu is None or weights is None:
            return None
        runner = facts.runner if facts.runner in ("V0", "V1", "V2") else None
        observed = build(Observed, {"runner": runner, "sampler": "fused" if facts.sampler else None})
        return memory_before_cache(specs.model, specs.gpu, specs.deployment, weights, observed)

    @cached_property
    def held(self) -> Capacity | None:
        """What the pool that the log printed should hold; None where this engine has no rule for the model."""
        if self.specs.model is None or self.pool is None:
            return None
        try:
            return capacity(self.specs.model, self.deployment, max(0, self.pool))
        except KvcalcError:
            return None

    @property
    def lack(self) -> int | None:
        """Bytes that a failed allocation was short of."""
        tried, free = self.facts.tried_bytes, self.facts.free_at_failure_bytes
        return None if tried is None else max(0, tried - (free or 0))

    @property
    def longest(self) -> int | None:
        """The longest sequence that the cache holds: the engine's own estimate, else the calculated one."""
        if self.facts.estimated_max_len:
            return self.facts.estimated_max_len
        return self.held.estimated_max_model_len(self.length) if self.held is not None and self.length else None
