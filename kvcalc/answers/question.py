"""From what the user typed to specs: the same for a command line, a budget file and a sweep."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model, without_doubts
from kvcalc.engines import check_runs, rules, settled
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, field_names
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import USUAL_ENGINE, Deployment
from kvcalc.specs.formats import DTYPE_ALIASES, PLAIN
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.load import Workload
from kvcalc.specs.model import ModelSpec
from kvcalc.units import format_count


class Question(NamedTuple):
    """A model, where and how it is served, and what is asked of it."""

    model: ModelSpec
    gpu: GpuSpec | None
    deployment: Deployment
    workload: Workload
    loaded: ModelSpec | None = None  # the model as its own files have it, before --dtype and --quantization
    asked: str = ""  # the model's name as it was typed
    given: frozenset[str] = frozenset()  # fields that the user set
    typed: Deployment | None = None  # before the engine's rules and the memory settled it
    settled: Deployment | None = None  # what became of that
    automatic: bool = False  # max_model_len is as long as the memory allows
    longest_prompt: int | None = None  # of requests that are known one by one

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return self.model.assumptions + (() if self.gpu is None else self.gpu.assumptions)

    @property
    def the_gpu(self) -> GpuSpec:
        if self.gpu is None:
            raise KvcalcError("no GPU given", hint="name one with --gpu; `kvcalc gpus` lists them")
        return self.gpu


Loader = Callable[[str], ModelSpec]


def ask(model: str, flags: dict[str, Any], engine: str = USUAL_ENGINE, load: Loader = load_model) -> Question:
    """The question that a model's name and raw flags pose.

    `engine` is the default one; `strict` among the flags refuses a config with keys that are not understood. Who asks
    many questions of few models gives a `load` that remembers them.
    """
    gpu = flags.get("gpu")
    return placed(unplaced(model, flags, engine, load), None if gpu is None else load_gpu(gpu))


def unplaced(model: str, flags: Mapping[str, Any], engine: str = USUAL_ENGINE, load: Loader = load_model) -> Question:
    """The question before anything about its GPU is known: `placed` puts it on one, a search on many."""
    left = dict(flags)
    strict = left.pop("strict", False)
    left.pop("gpu", None)
    workload = checked(Workload, {name: left.pop(name) for name in field_names(Workload) if name in left})
    _check_prefix(workload)
    if _automatic(left):
        del left["max_model_len"]
    deployment = checked(Deployment, {"engine": engine, **left})
    _check_owner(deployment)
    found = without_doubts(load(model)) if strict else load(model)
    spec = stored_as(found, deployment)
    return Question(
        spec, None, deployment, workload, found, model, frozenset(flags), deployment, automatic=_automatic(flags)
    )


def placed(question: Question, gpu: GpuSpec | None) -> Question:
    """The question on a GPU, or on none: what its engine settles there, and the draft that it runs with."""
    check_local(question.deployment, gpu)
    if gpu is not None:
        check_runs(question.deployment.engine, gpu)
    spec, deployment = question.model, settled(question.model, gpu, question.deployment)
    if deployment.draft is not None:
        from kvcalc.answers.drafts import with_draft

        spec, deployment = with_draft(spec, deployment)
    question = question._replace(model=spec, gpu=gpu, deployment=deployment)
    if question.automatic:
        from kvcalc.answers.automatic import fitted

        question = fitted(question)
    if not rules(deployment.engine).SPLITS_PROMPTS:
        from kvcalc.answers.prompt_room import with_room

        question = with_room(question)
    return question._replace(settled=question.deployment)


def moved(question: Question, gpu: GpuSpec) -> Question:
    """The question as it was typed, on another GPU: what engines settle may hang on it."""
    typed = question.deployment if question.typed is None else question.typed
    spec = question.model if question.loaded is None else stored_as(question.loaded, typed)
    return placed(question._replace(model=spec, deployment=typed), gpu)


def _automatic(flags: Mapping[str, Any]) -> bool:
    return str(flags.get("max_model_len")) in ("auto", "-1")


def _check_prefix(workload: Workload) -> None:
    """A prompt has no more cached tokens than tokens."""
    hit, prompt = workload.prefix_hit, workload.input_len
    if hit is not None and prompt is not None and hit > prompt:
        raise KvcalcError(
            f"--prefix-hit {format_count(hit)} is above the prompt of {format_count(prompt)} tokens",
            hint="--prefix-hit is of each prompt: at most --input-len",
        )


def _check_owner(deployment: Deployment) -> None:
    """A setting of one engine changes nothing in another."""
    if deployment.num_gpu_blocks_override is None:
        return
    from kvcalc.catalog.serve.table import sets

    if rules(deployment.engine).TIMED and not sets(deployment.engine, "num_gpu_blocks_override"):
        hint = "leave it out, or give --kv-memory"
        raise KvcalcError(f"{deployment.engine} takes no --num-gpu-blocks-override", hint=hint)


# llama.cpp's own settings, by their flags: no other engine has them.
LOCAL = {
    "backend": "--backend", "ubatch_size": "--ubatch-size", "flash_attn": "--flash-attn", "n_gpu_layers": "-ngl",
    "n_cpu_moe": "--n-cpu-moe", "host_memory_bandwidth": "--host-memory-bandwidth",
}  # fmt: skip


def check_local(deployment: Deployment, gpu: GpuSpec | None) -> None:
    """Raise KvcalcError where a setting of llama.cpp is given to another engine, or to no purpose."""
    splits = rules(deployment.engine).OFFLOADS or not rules(deployment.engine).TIMED
    if gpu is not None and gpu.split_over > 1 and not splits:
        raise KvcalcError(
            f"{deployment.engine} does not split a model over unequal cards ({gpu.name})", hint="add --engine llamacpp"
        )
    usual = Deployment()
    given = [flag for field, flag in LOCAL.items() if getattr(deployment, field) != getattr(usual, field)]
    if given and not rules(deployment.engine).OFFLOADS:
        raise KvcalcError(
            f"{given[0]} is llama.cpp's, and the engine is {deployment.engine}",
            hint="add --engine llamacpp",
        )
    alone = deployment.n_gpu_layers is None and not deployment.n_cpu_moe
    if deployment.host_memory_bandwidth is not None and alone:
        raise KvcalcError(
            "--host-memory-bandwidth changes nothing: the whole model is on the GPU", hint="give -ngl or --n-cpu-moe"
        )


def runs_beyond(name: str, tokens: int, limit: str) -> Assumption:
    """What a figure at a length that the model was not made for takes for granted."""
    return Assumption(name=name, value=tokens, why=f"above {limit}; taken to run there all the same")


def state_dtype_of(name: str) -> str:
    """The element type that a name of recurrent state's means.

    Raises:
        KvcalcError: no such type.

    >>> state_dtype_of("float32")
    'fp32'
    """
    dtype = DTYPE_ALIASES.get(name, name)
    if dtype not in PLAIN:
        raise KvcalcError(
            f"--mamba-ssm-cache-dtype: {name[:40]!r} is not a dtype of state", hint=f"auto, {', '.join(PLAIN)}"
        )
    return dtype


def stored_as(model: ModelSpec, deployment: Deployment) -> ModelSpec:
    """The model with the element type and the quantization that the deployment asks for."""
    if deployment.state_dtype is not None:
        state_dtype_of(deployment.state_dtype)
    mtp = deployment.draft is not None and _drafts_itself(deployment.draft)
    model = _as_typed(model, deployment.dtype, deployment.quantization, deployment.engine, mtp)
    if deployment.language_model_only or deployment.limit_mm_per_prompt is not None:
        from kvcalc.answers.media import without_towers

        model = without_towers(model, deployment)
    return model


def _drafts_itself(draft: str) -> bool:
    from kvcalc.answers.speculate.drafter import method

    known = method(draft)
    return known is not None and known["kind"] == "mtp"


@lru_cache(maxsize=64)
def _as_typed(model: ModelSpec, dtype: str, quantization: str | None, engine: str, mtp: bool) -> ModelSpec:
    """The model's weights as they are asked for, worked out once however many layouts and GPUs are tried."""
    if dtype != "auto":
        from kvcalc.catalog.quantization.online import redtype

        model = redtype(model, dtype)
    if quantization is not None:
        from kvcalc.catalog.quantization.online import requantize

        model = requantize(model, quantization, rules(engine).QUANTIZATIONS, engine, mtp)
    return model
