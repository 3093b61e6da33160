"""What every engine's folder has: `rules.py`, `capacity.py`, `memory.py`, `dtypes.py`, `weights.py` and `log.py`.

`rules.py` has one value, RULES; the others are modules of plain functions. The classes here say what each must hold;
mypy checks that every engine does (tests/engines/test_contract.py).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.engines.memory.start import Start
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec, Recurrent
from kvcalc.specs.versions import parse_version


class Rules:
    """`rules.py`: what the engine is like, so that nobody asks which one it is: it says what differs from this."""

    TITLE: str  # as it is spelled
    TIMED = True  # its steps have an estimate beside the bound; the lessons' arithmetic has the bound alone
    ROOM_FOR_LONGEST = False  # it refuses to start where one sequence of max_model_len has no room
    STARTS_BEYOND = False  # it starts with a max_model_len above the model's own maximum, with a warning at most
    LOWERS_LENGTH = False  # it takes a shorter context than the model's own where that has no room and none was asked
    NEVER_EVICTS = False  # a request keeps room for its whole length from the start, since none is ever evicted
    KEEPS_IN_FLIGHT = False  # windows keep room for the tokens of a step beside their own
    FAILS_WHEN_FULL = False  # a request that finds the cache full ends with an error: none is stopped to make room
    BATCHES_OF = 0  # tokens that one step takes by default, worked through in pieces of its budget; 0: the budget
    SPLITS_PROMPTS = True  # over several steps, where others need the room of one
    SHARES_SEQUENCES = False  # decode context parallelism is known: GPUs that share each sequence's cache
    RESERVES_STATES = False  # states are set aside for every sequence that may run, before any does
    TAKES_WHAT_IS_ASKED = False  # the cache is what the flags ask for, however much memory is free
    OFFLOADS = False  # layers may stay with the CPU, by its own kernels of several backends
    ASKS_FOR_SHARE = False  # its share is of the whole card, graphs apart; the others take a part of what is free
    KEEPS_BACK_BYTES = 0  # the least its pages advise to keep from weights and cache; 0: a profile run finds it
    WEIGHTS_AS_IN_FILE = False  # only the file itself says what is loaded: its tensors have types of their own
    # How pages call memory that no allocator of its own counts, and what a step needs besides.
    OUTSIDE, PEAK = "outside PyTorch", "activation peak"
    # What `--quantization` names here: a scheme of checkpoints, as vLLM spells them, or a type of GGUF files.
    QUANTIZATIONS: tuple[str, ...] = ("scheme",)
    LEFT_BY_LOADING_BYTES = 0  # what its log counts as weights though loading only left it allocated, at most
    NOT_ON: tuple[str, ...] = ()  # vendors whose accelerators it has no build for
    BY_PLUGIN: ClassVar[Mapping[str, str]] = {}  # vendors that it runs on with somebody else's addition, by its name
    OLDEST_CUDA: str | None = None  # compute capability from which on its newest version runs
    # Whose GPUs its memory before the cache was measured on; empty: there is no such evidence to compare with.
    MEASURED_VENDORS: tuple[str, ...] = ("NVIDIA", "AMD")
    SMALLER_CACHES: tuple[str, ...] = ("fp8", "int8", "nvfp4")  # to show beside the one that is asked, largest first
    # Fields of a Deployment that advice may change.
    ADVISED: tuple[str, ...] = ("kv_cache_dtype", "quantization", "tensor_parallel_size")
    FLAGS: ClassVar[Mapping[str, str]] = {}  # kvcalc's flags, which are vLLM's, as its own command line spells them
    # Switches of a simulated scheduler, and the version that they came with; None: every one has them.
    SWITCHES: ClassVar[Mapping[str, str | None]] = {}
    OWN: tuple[str, ...] = ()  # fields of a Deployment that no other engine has

    def settled(self, model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
        """The deployment with what this engine settles by model and GPU: a layout, a cache's type."""
        return deployment

    def typed(self, deployment: Deployment) -> Deployment:
        """The deployment as its command line would say it: what `settled` did to the layout, undone."""
        return deployment

    def check_version(self, text: str) -> None:
        """Raise KvcalcError where this is no version that the engine can have."""
        parse_version(text)

    def doubt(self, gpu: GpuSpec) -> str | None:
        """Why it may not run on an accelerator though the memory would do; None: nothing speaks against it."""
        plugin, has = self.BY_PLUGIN.get(gpu.vendor), gpu.compute_capability
        if plugin is not None:
            return f"{self.TITLE} runs on {gpu.vendor} GPUs only with {plugin}, of which nothing was measured"
        if gpu.vendor != "NVIDIA" or has is None or self.OLDEST_CUDA is None:
            return None
        if parse_version(has) >= parse_version(self.OLDEST_CUDA):
            return None
        return (
            f"the newest {self.TITLE} wants compute capability {self.OLDEST_CUDA}, and this card has {has}: "
            "it runs on older versions at best"
        )

    def copies_weights(self, version: str | None) -> bool:
        """Whether `--cpu-offload-gb` copies a layer's weights to the GPU before it computes; else kernels read them."""
        return False

    def captured(self, gpu: GpuSpec, deployment: Deployment) -> int | None:
        """Sequences of the largest step that runs from a graph, where it matters to time; None: any."""
        return None

    def plans_ahead(self, version: str | None) -> bool:
        """Whether the next step is planned while one runs; `version` None: the newest."""
        return False

    def whole_prompt_fits(self, version: str | None) -> bool:
        """Whether a prompt starts only where all of it has room, not its first chunk alone."""
        return True

    def room_for(self, prompt: int, deployment: Deployment) -> int | None:
        """Tokens of a step that hold so long a prompt whole beside all who decode; None: as by default."""
        return None

    def request_table(self, deployment: Deployment, max_model_len: int | None) -> int:
        """Bytes of a table from requests to cached tokens, held beside the cache; 0: it has none."""
        return 0


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
