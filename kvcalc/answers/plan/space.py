"""What a plan chooses from: GPUs, layouts, types of weights and cache, and settings. What a flag says is not varied.

A layout is tried with its engine's own settings. `settings` has others of the same layout, for a search that would
gain by them; `shorter` the context that a layout is given where the model's own does not start.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import running_at_once
from kvcalc.answers.question import Loader, Question, placed, unplaced
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.prices import priced_names
from kvcalc.counting.weights import weight_bytes
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec, MoeMlp, Recurrent

# Judgements: what people deploy, coarse enough to be searched.
TENSOR_SIZES = (1, 2, 4, 8, 16)
STAGES = (1, 2, 4)  # of whole nodes
SMALL = 0.5  # of a node's memory: weights below it leave room for a cache, and nodes are better filled with replicas
LONGER = 4  # times a mean request: the context that is given where the model's own does not fit
SEQUENCES = (16, 32, 64, 128, 256, 512)  # max_num_seqs
BUDGETS = (2048, 4096, 8192, 16384)  # max_num_batched_tokens
AS_IT_IS = ("none", None)
VARIED = ("gpu", "tensor_parallel_size", "pipeline_parallel_size", "quantization", "kv_cache_dtype", "max_num_seqs",
          "max_num_batched_tokens", "draft", "num_speculative_tokens", "acceptance")  # fmt: skip

Flags = dict[str, Any]


class Choice(NamedTuple):
    """One deployment of the space: its flags by field, as typed, and the question that `size` is asked with them."""

    flags: Mapping[str, Any]
    question: Question


class Space:
    """All deployments of a model that a plan tries.

    Args:
        asked: the model's name.
        given: by field, the values that were asked for: nothing else is tried of these.
        load: reads a model.
    """

    def __init__(self, asked: str, given: Mapping[str, list[Any]], load: Loader) -> None:
        self.asked, self.given, self.load = asked, given, load
        self._fixed = {name: values[0] for name, values in given.items() if name not in VARIED and len(values) == 1}
        self._read: dict[tuple[tuple[str, Any], ...], Question] = {}
        self.refused: KvcalcError | None = None  # the first of what could not be asked

    def choices(self, names: Sequence[str]) -> Iterator[Choice]:
        """Each layout of each GPU; what cannot be asked is left out.

        Raises:
            KvcalcError: what drafts cannot be read, or is not said.
        """
        spec = self.load(self.asked)
        for gpu in map(load_gpu, names):
            before: Choice | None = None
            for flags in choices(spec, gpu, self.given):
                found = self._choice(flags, gpu)
                if found is None or self._caches_alike(found, before):
                    continue
                before = found
                if "acceptance" in flags and found.question.deployment.draft_unread is not None:
                    raise KvcalcError(found.question.deployment.draft_unread, hint="name another with --draft")
                yield found

    def _caches_alike(self, choice: Choice, before: Choice | None) -> bool:
        """Whether it is the one before without prefix caching, and nothing comes of that: as many run at once."""
        if "enable_prefix_caching" in self.given or choice.flags.get("enable_prefix_caching") is not False:
            return False
        if before is None:
            return False
        room = [running_at_once(Deployed(one.question), *self._lengths) for one in (before, choice)]
        return room[0] == room[1]

    @property
    def _lengths(self) -> tuple[int, int]:
        return int(self.given["input_len"][0]), int(self.given["output_len"][0])

    def settings(self, choice: Choice, sequences: Iterable[int], budgets: Iterable[int]) -> Iterator[Choice]:
        """The same layout with other settings: how many sequences a step admits, how many tokens it carries."""
        own = {name: value for name, value in choice.flags.items() if name not in self._fixed and name != "gpu"}
        for field, values in (("max_num_seqs", sequences), ("max_num_batched_tokens", budgets)):
            for value in () if field in (*self.given, *choice.flags) else values:
                found = self._choice(own | {field: value}, choice.question.the_gpu)
                if found is not None:
                    yield found

    def shorter(self, choice: Choice) -> Choice | None:
        """The same layout with a context of some requests' length, the next power of two; None: it is given."""
        workload, longest = choice.question.workload, choice.question.model.max_context
        wanted = LONGER * ((workload.input_len or 0) + (workload.output_len or 0))
        length = 1 << (wanted - 1).bit_length()
        if "max_model_len" in self.given or longest is None or length >= longest:
            return None
        own = {name: value for name, value in choice.flags.items() if name not in self._fixed and name != "gpu"}
        return self._choice(own | {"max_model_len": length}, choice.question.the_gpu)

    def _choice(self, own: Flags, gpu: GpuSpec) -> Choice | None:
        name = gpu.name if gpu.instance is None else gpu.instance.name
        flags, key = {**self._fixed, **own, "gpu": name}, tuple(own.items())
        try:
            if key not in self._read:
                self._read[key] = unplaced(self.asked, flags, load=self.load)
            return Choice(flags, placed(self._read[key], gpu))
        except KvcalcError as error:
            self.refused = self.refused or error
            return None


def priced(engine: str) -> list[str]:
    """The GPUs that have a list price, of the makers whose GPUs the engine was measured on; of any, where none was."""
    measured = rules(engine).MEASURED_VENDORS
    return [name for name in sorted(priced_names()) if not measured or load_gpu(name).vendor in measured]


def choices(model: ModelSpec, gpu: GpuSpec, given: Mapping[str, list[Any]]) -> Iterator[Flags]:
    """The flags of each layout of one GPU that is tried.

    Args:
        model: as it is stored.
        gpu: whose node limits the tensor-parallel size.
        given: by field, the values that were asked for.
    """
    layouts = list(_layouts(model, gpu, given))
    weights: list[Flags] = _only("quantization", given) or _weights(model, gpu)
    caches: list[Flags] = _only("kv_cache_dtype", given) or _caches(model, gpu)
    more = [_only(field, given) or [{}] for field in ("max_num_seqs", "max_num_batched_tokens")]
    for parts in product(layouts, weights, caches, *more, drafting(model, given), prefixes(model, given)):
        yield {name: value for part in parts for name, value in part.items()}


def drafting(model: ModelSpec, given: Mapping[str, list[Any]]) -> list[Flags]:
    """Without drafts and with them, where `--acceptance` says how many hold; else as the flags have it.

    Acceptances of several positions draft as many tokens, one drafts those of the model's own layers.

    Raises:
        KvcalcError: nothing says what drafts, or how many tokens.
    """
    rates = tuple(given.get("acceptance", ()))
    draft: Flags = {"draft": given["draft"][0]} if "draft" in given else {}
    own = 0 if draft else sum(group.count for group in model.mtp)
    counts = given.get("num_speculative_tokens", [])
    if rates and not counts:
        counts = [len(rates)] if len(rates) > 1 else [own] if own else []
    if not counts and (rates or draft):
        raise KvcalcError("how many tokens are drafted?", hint="give --num-speculative-tokens")
    if rates and not draft and not own:
        raise KvcalcError(f"{model.name} has no layers that draft", hint="name what drafts with --draft")
    held: Flags = {"acceptance": rates} if rates else {}
    ways = [draft | {"num_speculative_tokens": count} | held for count in counts]
    return [{}, *ways] if rates else ways or [{}]


def prefixes(model: ModelSpec, given: Mapping[str, list[Any]]) -> list[Flags]:
    """Prefix caching as the engine has it; off too where no prompt is cached and it keeps states, which take room."""
    hit = given.get("prefix_hit", [None])[0]
    states = any(isinstance(mixer, Recurrent) for group in model.groups for mixer in group.mixers)
    if "enable_prefix_caching" in given or not states or (hit is not None and str(hit) != "0"):
        return [{}]
    return [{}, {"enable_prefix_caching": False}]


def _only(field: str, given: Mapping[str, list[Any]]) -> list[Flags]:
    """What was given; `none` is as the checkpoint or the engine has it."""
    return [{} if value in AS_IT_IS else {field: value} for value in given.get(field, ())]


def _counts(field: str, given: Mapping[str, list[Any]]) -> list[int]:
    return [getattr(checked(Deployment, {field: value}), field) for value in given.get(field, ())]


def _layouts(model: ModelSpec, gpu: GpuSpec, given: Mapping[str, list[Any]]) -> Iterator[Flags]:
    """Within a node first; several whole nodes as stages. Experts cut, whole, or of several replicas of attention."""
    node = gpu.gpus_per_node
    routed = any(isinstance(group.mlp, MoeMlp) for group in model.groups)
    settled = {"enable_expert_parallel", "data_parallel_size"} & given.keys()
    large = weight_bytes(model) > SMALL * node * gpu.memory_bytes
    experts = (False, True) if routed and not settled else (False,)
    for size in _counts("tensor_parallel_size", given) or [size for size in TENSOR_SIZES if size <= node]:
        stages = _counts("pipeline_parallel_size", given) or (STAGES if large and size == node > 1 else (1,))
        for stage, whole in product(stages, experts if size > 1 else (False,)):
            layout: Flags = {"tensor_parallel_size": size}
            layout |= {"pipeline_parallel_size": stage} if stage > 1 else {}
            yield layout | ({"enable_expert_parallel": True} if whole else {})
    if routed and node > 1 and not settled and not {"tensor_parallel_size", "pipeline_parallel_size"} & given.keys():
        yield {"tensor_parallel_size": 1, "data_parallel_size": node, "enable_expert_parallel": True}


def _weights(model: ModelSpec, gpu: GpuSpec) -> list[Flags]:
    """As stored; a checkpoint that is not quantized also in eight bits, where the GPU computes in them."""
    if model.quantization is not None or gpu.peak("fp8") is None:
        return [{}]
    return [{}, {"quantization": "fp8"}]


def _caches(model: ModelSpec, gpu: GpuSpec) -> list[Flags]:
    """As the checkpoint says; in eight bits, where the GPU computes in them."""
    narrow = (model.kv_cache_dtype or "").startswith("fp8")
    return [{}] if gpu.peak("fp8") is None or narrow else [{}, {"kv_cache_dtype": "fp8"}]
