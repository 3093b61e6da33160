"""What could be changed about a deployment at all, each as it would be typed."""

from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import stored_as
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import flag_of

USUAL_SHARE = 0.95  # of the card's memory; above it, little is left for what no profile run sees
FOUR_BITS = "--quantization awq"  # no engine makes them while it loads
PLAIN_CACHES = ("bf16", "fp16", "fp32", "f16")
USUAL_SEQUENCES = 256  # what vLLM admits on smaller cards; more only costs memory for logits
WORTH_CHANGING = 1.05  # weights that shrink by less are no other file
# Types of GGUF files that most models are published in, the largest first; those below need an importance matrix.
USUAL_TYPES = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")


class Change(NamedTuple):
    """One thing to do otherwise, as it would be typed."""

    flag: str
    update: dict[str, Any]


def changed(deployed: Deployed, update: dict[str, Any]) -> Deployed:
    """The same question with another deployment."""
    deployment = replace(deployed.deployment, **update)
    question = deployed.question
    model = stored_as(question.loaded or deployed.model, deployment) if "quantization" in update else deployed.model
    return Deployed(question._replace(deployment=deployment, model=model))


def changes(deployed: Deployed) -> list[Change]:
    """What can be changed at all, the easiest first."""
    changes = [*_smaller_cache(deployed), *_less_beside_it(deployed), *_less_kept_back(deployed)]
    changes += _other_weights(deployed)
    return [change for change in changes if change.update.keys() <= set(deployed.engine.ADVISED)]


def _smaller_cache(deployed: Deployed) -> list[Change]:
    dtype = deployed.engine.SMALLER_CACHES[0]
    if deployed.cache_dtype not in PLAIN_CACHES:
        return []
    return [Change(f"--kv-cache-dtype {dtype}", {"kv_cache_dtype": dtype})]


def _less_beside_it(deployed: Deployed) -> list[Change]:
    """What a profile run would find less of, and a larger share of the card."""
    deployment, budget = deployed.deployment, deployed.budget
    found: list[Change] = []
    if deployment.kv_memory_bytes is None and deployed.engine.ASKS_FOR_SHARE:
        sequences = deployed.max_num_seqs
        in_sampler = budget.activation is not None and budget.activation.phase == "sampler"
        if in_sampler and sequences is not None and sequences > USUAL_SEQUENCES:
            found.append(Change(f"--max-num-seqs {USUAL_SEQUENCES}", {"max_num_seqs": USUAL_SEQUENCES}))
        if budget.graphs_charged and budget.graphs.value:
            found.append(Change("--enforce-eager", {"enforce_eager": True}))
        share, higher = deployed.gpu_memory_utilization, _highest_share(deployed)
        if share is not None and higher > share:
            found.append(Change(f"--gpu-memory-utilization {higher:.2f}", {"gpu_memory_utilization": higher}))
    return found


def _less_kept_back(deployed: Deployed) -> list[Change]:
    """A larger share for weights and cache, where an engine keeps more from them than its pages find necessary."""
    kept, budget = deployed.engine.KEEPS_BACK_BYTES, deployed.budget
    if not kept or budget.reserve is None or deployed.deployment.kv_memory_bytes is not None:
        return []
    now = 1 - budget.reserve.value / budget.requested
    higher = min(USUAL_SHARE, int(100 * (1 - kept / budget.requested)) / 100)
    if higher < now + 0.01:  # no less than a hundredth: what is typed
        return []
    return [Change(f"--mem-fraction-static {higher:.2f}", {"gpu_memory_utilization": higher})]


def _other_weights(deployed: Deployed) -> list[Change]:
    deployment = deployed.deployment
    found = _smaller_types(deployed)
    if found or "scheme" not in deployed.engine.QUANTIZATIONS:
        pass
    elif deployed.model.quantization is None and deployment.quantization is None:
        found.append(Change("--quantization fp8", {"quantization": "fp8"}))
        if deployed.weight_bytes_per_gpu > deployed.budget.requested / 2:  # elsewhere 8 bits are enough
            found.append(Change(FOUR_BITS, {"quantization": "awq"}))
    return found + _more_gpus(deployed)


def _more_gpus(deployed: Deployed) -> list[Change]:
    """Twice as many of a node, and again: of those that share each layer, or of those that share the layers out."""
    deployment, found = deployed.deployment, list[Change]()
    field = next(name for name in ("tensor_parallel_size", "pipeline_parallel_size") if name in deployed.engine.ADVISED)
    now, gpus = getattr(deployment, field), deployment.tensor_parallel_size * deployment.pipeline_parallel_size
    if deployed.gpu.split_over > 1:  # cards that are taken as one: nobody doubles them
        return []
    times = 1
    while (times := 2 * times) * gpus <= deployed.gpus_per_node:
        found.append(Change(f"{flag_of(field)} {now * times}", {field: now * times}))
    return found


def _smaller_types(deployed: Deployed) -> list[Change]:
    """Of the usual types of GGUF files the next smaller one, or the largest that leaves a pool where there is none."""
    now = deployed.weight_bytes_per_gpu
    if deployed.engine.QUANTIZATIONS != ("gguf",):
        return []
    has_room = bool(deployed.pool_bytes)
    for name in USUAL_TYPES:
        try:
            other = changed(deployed, {"quantization": name})
        except KvcalcError:  # the file itself was named: its types are what they are
            return []
        if other.weight_bytes_per_gpu * WORTH_CHANGING < now and (has_room or other.pool_bytes):
            return [Change(f"--quantization {name}", {"quantization": name})]
    return []


def _highest_share(deployed: Deployed) -> float:
    """The largest usual share, in hundredths, that the card can hold with what is beside it."""
    budget = deployed.budget
    beside = budget.initial_use.high + (0 if budget.graphs_charged else budget.graphs.high)
    return min(USUAL_SHARE, int(100 * (1 - beside / budget.total)) / 100)
