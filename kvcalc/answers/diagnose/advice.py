"""What to change after a start: what a refusal says itself, then what the calculation says of the measured pool."""

from contextlib import suppress

from kvcalc.answers.advice import advice
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.diagnose.mend import after_out_of_memory
from kvcalc.answers.diagnose.refusal import states_held
from kvcalc.answers.diagnose.start import Logged
from kvcalc.answers.diagnose.started import Started
from kvcalc.answers.performance import Performance
from kvcalc.engines import cache_dtype, capacity
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.errors import KvcalcError
from kvcalc.results.size import Advice
from kvcalc.specs.base import replace
from kvcalc.units import format_bytes, format_count

MOVE_WEIGHTS = ("--quantization", "--tensor-parallel-size")  # what they give depends on the weights themselves
SIXTEEN_BITS_OR_MORE = ("bf16", "fp16", "fp32")


def log_advice(started: Started) -> tuple[Advice, ...]:
    """Changes in kvcalc's flags, one for each flag; the engine's own figure wins over the calculated one."""
    facts, specs = started.facts, started.specs
    kinds = {refusal.kind for refusal in facts.refusals}
    found = _refused(kinds, started)
    question = specs.question
    with suppress(KvcalcError):  # without a capacity rule for this model, the log's own advice stands alone
        if "card-in-use" in kinds:
            pass  # nothing about this deployment needs to change
        elif started.rules.TAKES_WHAT_IS_ASKED:
            found += _room(facts, specs)
        elif question is not None:
            calculated = advice(Performance(Deployed(question)), measured_pool=started.pool)
            other = started.other_checkpoint
            found += [one for one in calculated if not (other and one.change.startswith(MOVE_WEIGHTS))]
        elif started.held is not None:
            found += _smaller_elements(started, started.held)
    first: dict[str, Advice] = {}
    for one in sorted(found, key=_needs_more_gpus):
        first.setdefault(one.change.split()[0], one)
    return tuple(first.values())


def _needs_more_gpus(advice: Advice) -> bool:
    """What can be done on the GPUs that are there comes first."""
    return advice.goal == "fit" and "parallel-size" in advice.change


def _refused(kinds: set[str], started: Started) -> list[Advice]:
    """What the refusal itself says would start."""
    facts = started.facts
    found = list(after_out_of_memory(started)) if "out-of-memory" in kinds else []
    longest = facts.tokens if "length-above-cache" in kinds else started.longest
    if kinds & {"cache-too-small", "length-above-cache"} and longest:
        effect = f"max_model_len up to {format_count(longest)} fits"
        found.append(Advice(change=f"--max-model-len {longest}", effect=effect, goal="fit"))
    if "card-in-use" in kinds:
        found += _share_of_what_is_free(facts, started.budget)
    states = states_held(facts)
    if "too-few-states" in kinds and states is not None:
        effect = f"the cache holds {format_count(states)} states"
        found.append(Advice(change=f"--max-num-seqs {states}", effect=effect, goal="fit"))
    return found


def _share_of_what_is_free(facts: LogFacts, budget: MemoryBudget | None) -> list[Advice]:
    if not facts.free_bytes or not facts.total_bytes:
        return []
    free, taken = format_bytes(facts.free_bytes), format_bytes(facts.total_bytes - facts.free_bytes)
    share = int(100 * facts.free_bytes / facts.total_bytes) / 100
    if share <= 0:
        return [Advice(change="free the GPU", effect=f"{taken} of it are taken", goal="fit")]
    if budget is not None and budget.weights + budget.overhead.value >= share * facts.total_bytes:
        weights = format_bytes(budget.weights)
        effect = f"{taken} of it are taken; the {free} left do not hold weights of {weights} and what runs beside them"
        return [Advice(change="free the GPU", effect=effect, goal="fit")]
    effect = f"the largest share that the {free} left free can give"
    return [Advice(change=f"--gpu-memory-utilization {share:.2f}", effect=effect, goal="fit")]


def _smaller_elements(started: Started, held: Capacity) -> list[Advice]:
    """What needs no GPU to be said."""
    pool, specs = started.pool, started.specs
    if specs.model is None or not pool or cache_dtype(specs.model, specs.deployment) not in SIXTEEN_BITS_OR_MORE:
        return []
    other = capacity(specs.model, replace(specs.deployment, kv_cache_dtype="fp8"), pool)
    before, after = held.kv_cache_size_tokens, other.kv_cache_size_tokens
    if not before or not after:
        return []
    effect = f"{after / before:.1f}× the tokens: {format_count(after)} instead of {format_count(before)}"
    return [Advice(change="--kv-cache-dtype fp8", effect=effect, goal="batch")]


def _room(facts: LogFacts, specs: Logged) -> list[Advice]:
    """llama.cpp: the longest n_ctx, or the sequences, that what is free besides weights and buffers could hold."""
    if specs.model is None or None in (facts.free_bytes, facts.weights_bytes, facts.activation_bytes):
        return []
    left = (facts.free_bytes or 0) - (facts.weights_bytes or 0) - (facts.activation_bytes or 0)
    longest_asked, here = specs.model.max_context, facts.tokens or 0
    if left <= 0 or longest_asked is None:
        return []
    room = capacity(specs.model, specs.deployment, left)
    longest, beside = room.estimated_max_model_len(longest_asked), f"{format_bytes(left)} beside weights and buffers"
    if longest > here:
        effect = f"n_ctx up to {format_count(longest)} fits in the {beside}"
        return [Advice(change=f"-c {longest}", effect=effect, goal="batch")]
    sequences = room.max_batch(here) if here else None
    if not sequences or sequences < 2 or facts.settings.get("max_num_seqs", 1) != 1:
        return []
    effect = f"{format_count(sequences)} sequences of {format_count(here)} fit in the {beside}"
    return [Advice(change=f"-np {sequences} -c {sequences * here}", effect=effect, goal="batch")]
