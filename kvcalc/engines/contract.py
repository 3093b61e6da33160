"""What every engine's folder has: `rules.py`, `capacity.py`, `memory.py`, `dtypes.py`, `weights.py` and `log.py`.

They are modules of plain functions and constants. The protocols say what each must hold; mypy checks that every engine
does (tests/engines/test_contract.py).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.engines.memory.start import Start
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec, Recurrent


class Rules(Protocol):
    """`rules.py`: what the engine is like, so that nobody has to ask which one it is."""

    @property
    def TITLE(self) -> str:
        """As it is spelled."""

    @property
    def TIMED(self) -> bool:
        """Whether its steps have an estimate beside the bound; the lessons' arithmetic has the bound alone."""

    @property
    def ROOM_FOR_LONGEST(self) -> bool:
        """Whether it refuses to start where one sequence of max_model_len has no room."""

    @property
    def STARTS_BEYOND(self) -> bool:
        """Whether it starts with a max_model_len above the model's own maximum, with a warning at most."""

    @property
    def LOWERS_LENGTH(self) -> bool:
        """Whether it takes a shorter context than the model's own where that has no room and none was asked for."""

    @property
    def NEVER_EVICTS(self) -> bool:
        """Whether a request keeps room for its whole length from the start, since none is ever evicted."""

    @property
    def KEEPS_IN_FLIGHT(self) -> bool:
        """Whether windows keep room for the tokens of a step beside their own."""

    @property
    def SHARES_SEQUENCES(self) -> bool:
        """Whether decode context parallelism is known: GPUs that share each sequence's cache."""

    @property
    def RESERVES_STATES(self) -> bool:
        """Whether states are set aside for every sequence that may run, before any does."""

    @property
    def TAKES_WHAT_IS_ASKED(self) -> bool:
        """Whether the cache is what the flags ask for, however much memory is free."""

    @property
    def OFFLOADS(self) -> bool:
        """Whether layers may stay with the CPU, by its own kernels of several backends."""

    @property
    def ASKS_FOR_SHARE(self) -> bool:
        """Whether its share is of the whole card, graphs apart; the others take a part of what is free."""

    @property
    def WEIGHTS_AS_IN_FILE(self) -> bool:
        """Whether only the file itself says what is loaded: its tensors have types of their own."""

    @property
    def LEFT_BY_LOADING_BYTES(self) -> int:
        """What its log counts as weights though loading only left it allocated, at most."""

    @property
    def MEASURED_VENDORS(self) -> tuple[str, ...]:
        """Whose GPUs its memory before the cache was measured on; empty: there is no such evidence to compare with."""

    @property
    def SMALLER_CACHES(self) -> tuple[str, ...]:
        """Cache types to show beside the one that was asked for, largest first."""

    @property
    def ADVISED(self) -> tuple[str, ...]:
        """Fields of a Deployment that advice may change."""

    @property
    def FLAGS(self) -> Mapping[str, str]:
        """kvcalc's flags, which are vLLM's, as its own command line spells them."""

    @property
    def OWN(self) -> tuple[str, ...]:
        """Fields of a Deployment that no other engine has."""

    def settled(self, model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
        """The deployment with what this engine settles by model and GPU: a layout, a cache's type."""

    def typed(self, deployment: Deployment) -> Deployment:
        """The deployment as its command line would say it: what `settled` did to the layout, undone."""

    def check_version(self, text: str) -> None:
        """Raise KvcalcError where this is no version that the engine can have."""

    def request_table(self, deployment: Deployment, max_model_len: int | None) -> int:
        """Bytes of a table from requests to cached tokens, held beside the cache; 0: it has none."""


class Pools(Protocol):
    """`capacity.py`."""

    def capacity(
        self, model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]
    ) -> Capacity:
        """Blocks, tokens and sequences in `pool_bytes` per GPU; `stages` has the layers of each pipeline stage."""

    def admitted(self, held: Capacity, deployment: Deployment) -> int | None:
        """Sequences that run at once where nobody said how many, by the pool; None: the pool does not limit them."""

    def asked(self, model: ModelSpec, deployment: Deployment, stages: list[frozenset[int]]) -> int | None:
        """Bytes of cache per GPU that the flags ask for outright; None: it is made as large as memory allows."""


class Memory(Protocol):
    """`memory.py`."""

    def budget(self, start: Start) -> MemoryBudget:
        """Where one GPU's memory goes, the fullest rank's, and what is left for the cache."""


class Dtypes(Protocol):
    """`dtypes.py`."""

    def cache_dtype(self, model: ModelSpec, deployment: Deployment) -> str:
        """The cache's element type: as asked, else as the checkpoint says, else as the engine does."""

    def state_dtype(self, mixer: Recurrent, model: ModelSpec, deployment: Deployment) -> str:
        """The element type of a recurrent mixer's state."""


class Weights(Protocol):
    """`weights.py`."""

    def check(self, model: ModelSpec, deployment: Deployment) -> None:
        """Raise KvcalcError where the engine cannot cut this model's weights for the layout."""

    def loaded_bytes(self, model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None) -> int:
        """Bytes of weights on the fullest GPU, as the engine loads them; `gpu` None: as on one without own kernels."""


class Log(Protocol):
    """`log.py`."""

    def settings(self, facts: LogFacts) -> dict[str, Any]:
        """Fields of a Deployment that a start-up log says in this engine's own way."""
