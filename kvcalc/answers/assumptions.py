"""What a deployment's figures take for granted: each a listed assumption."""

from collections.abc import Iterator

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.prompt_room import room_assumptions
from kvcalc.counting.layout import leaves_node
from kvcalc.engines import admitted_sequences
from kvcalc.specs.base import Assumption
from kvcalc.specs.deployment import BATCHED_TOKENS
from kvcalc.specs.model import MoeMlp
from kvcalc.timing.estimate import eager_launches
from kvcalc.timing.ranges import Timed, range_around
from kvcalc.units import format_decimal_bytes


def assumptions_of(deployed: Deployed) -> tuple[Assumption, ...]:
    """What the GPU's name, the memory, the time and the price took for granted."""
    return (
        *deployed.gpu.assumptions,
        *_engine(deployed),
        *(() if deployed.lowered is None else (deployed.lowered.assumption,)),
        *_taken(deployed),
        *_memory(deployed),
        *_admitted(deployed),
        *_prompt_tokens(deployed),
        *time_assumptions(deployed),
        *deployed.bill.assumptions,
    )


def _on_host(deployed: Deployed) -> Iterator[Assumption]:
    """Weights that stay in the host's memory."""
    what, read_bytes, deployment = deployed.prefetch, deployed.replica.offload_bytes, deployed.deployment
    if read_bytes:
        copied = deployed.engine.copies_weights(deployment.engine_version)
        how = (
            "are copied over its link in every pass, each layer's before it computes (a layer's copies stay on the GPU)"
            if copied
            else "are read over its link in every pass, by the kernels themselves (UVA)"
        )
        ahead = "where the engine has it, --offload-group-size N fetches them ahead"
        why = f"weights in the host's memory {how}, and no computing hides it; {ahead}"
        yield Assumption(name="cpu offload", value=read_bytes, why=why)
    if what is not None:
        beside = " (in place of --cpu-offload-gb)" if deployment.cpu_offload_bytes else ""
        why = (
            f"bytes of {len(what.places)} of {what.layers} layers in the host's memory, copied while layers before "
            f"them compute{beside}, at the link's whole bandwidth; buffers for {min(what.ahead, len(what.places))}"
        )
        yield Assumption(name="prefetched weights", value=what.host_bytes, why=why)


def _launched(deployed: Deployed) -> Iterator[Assumption]:
    """Steps that no graph covers."""
    replica, asked = deployed.replica, deployed.question.workload
    captured, most = replica.captured, max(asked.batch or 0, asked.concurrency or 0)
    if captured is None or 0 < captured >= most:
        return
    where = f"above {captured} sequences no graph covers a step:" if captured else "without graphs"
    each = float(eager_launches(replica.machine.profile, 1, int(replica.routed)))
    span = "0.5 to 1.2" if replica.routed else "0.26 to 0.8"
    why = f"{where} the host launches kernel by kernel: seconds of a layer at least; hosts took {span} ms"
    yield Assumption(name="eager launches", value=each, why=why)


def time_assumptions(deployed: Deployed) -> tuple[Assumption, ...]:
    """What a step's bytes and links took for granted; the lessons' step reads every expert."""
    found, deployment = [], deployed.deployment
    routed = any(isinstance(group.mlp, MoeMlp) for group in deployed.model.groups)
    if routed and deployed.engine.TIMED:
        why = "a step wakes as many experts as measured steps did; bound and estimate take the same number"
        found.append(Assumption(name="experts woken", value="as measured", why=why))
    left = leaves_node(deployment, deployed.gpus_per_node)
    if left is not None:
        found.append(Assumption(name="nodes", value=None, why=f"{left}: the slower link is used"))
    if deployed.engine.TIMED:
        found.extend(_on_host(deployed))
        found.extend(_launched(deployed))
    machine = deployed.replica.machine
    if deployed.engine.TIMED:
        found.extend(_judged(deployed))
    if machine.offloads:
        why = "of the host's memory, where the rest of the model is; --host-memory-bandwidth says another"
        speed = f"{format_decimal_bytes(machine.host_bandwidth)}/s"
        found.append(Assumption(name="host memory bandwidth", value=speed, why=why))
    if deployed.gpu.calibration is not None:
        from kvcalc.answers.calibrate.both import calibration_assumptions

        found.extend(calibration_assumptions(deployed))
    if deployment.swap_space_bytes:
        found.append(Assumption(name="swap space", value=None, why="CPU memory: nothing changes on the GPU"))
    return tuple(found)


def _judged(deployed: Deployed) -> Iterator[Assumption]:
    """Ranges and constants of this answer that no measurements decide: set by hand."""
    replica, asked = deployed.replica, deployed.question.workload
    timed: list[Timed] = ["decode"]
    if asked.input_len is not None:
        timed += ["prompt"] if asked.output_len is None else ["prompt", "first-token"]
    for one in timed:
        around = range_around(replica.machine, replica.routed, one, replica.knowledge)
        if not around.cells:
            held = f"{around.low:g} to {around.high:g} of the estimate"
            why = around.note or "by hand: too few measurements of its kind"
            yield Assumption(name=f"range of {one}", value=held, why=why)
    if "by hand" in replica.machine.profile.note:
        yield Assumption(name="engine constants", value=replica.machine.profile.name, why=replica.machine.profile.note)


def price_warnings(deployed: Deployed) -> tuple[str, ...]:
    """What to say of an old price, of one that nobody knows, and of GPUs that are paid and idle."""
    return deployed.bill.warnings


def _engine(deployed: Deployed) -> Iterator[Assumption]:
    """What speaks against the engine's running there at all."""
    doubt = deployed.engine.doubt(deployed.gpu)
    if doubt is not None:
        yield Assumption(name="engine", value=deployed.deployment.engine, why=doubt)


def _taken(deployed: Deployed) -> Iterator[Assumption]:
    """The settings of the memory's profile run; one that prompts ask for says so."""
    room = room_assumptions(deployed.question)
    names = {one.name for one in room}
    yield from (one for one in deployed.budget.assumptions if one.name not in names)
    yield from room


def _memory(deployed: Deployed) -> Iterator[Assumption]:
    """Profile runs were read on two vendors' GPUs; llama.cpp makes none."""
    budget, measured = deployed.budget, deployed.engine.MEASURED_VENDORS
    given = budget.pool is None or budget.pool_given or budget.given_overhead is not None
    if not given and measured and deployed.gpu.vendor not in measured:
        why = f"what an engine spends before the cache was measured on {' and '.join(measured)} GPUs"
        yield Assumption(name="memory", value=f"as on {measured[0]}", why=why)


def _admitted(deployed: Deployed) -> Iterator[Assumption]:
    """How many sequences run at once, where the engine works it out from its pool."""
    if deployed.capacity is None or deployed.deployment.max_num_seqs or deployed.int_taken("max_num_seqs"):
        return
    found = admitted_sequences(deployed.capacity, deployed.deployment)
    if found:  # none run where nothing fits
        yield Assumption(name="max_num_seqs", value=found, why="what the engine makes of its pool's tokens")


def _prompt_tokens(deployed: Deployed) -> Iterator[Assumption]:
    """How many prompt tokens a step carries, where serving is asked about and neither flag nor engine says it."""
    name, asked, deployment = "max_num_batched_tokens", deployed.question.workload, deployed.deployment
    served = asked.input_len is not None and asked.output_len is not None and deployed.engine.TIMED
    if served and not deployment.max_num_batched_tokens and not deployed.int_taken(name):
        yield Assumption(name=name, value=BATCHED_TOKENS, why="prompt tokens of one step: what servers usually take")
