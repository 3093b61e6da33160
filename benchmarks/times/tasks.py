"""Tasks: what a performance case measured, as kernel sums that no engine constant enters, and the formula over them.

`prepare` prices the kernels once; `predict` then evaluates many cases of one task as arrays for any profile. So a refit
of engine constants, and leaving out one cell after the other, costs next to nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from times.saturated import prepare_saturated, prepare_tuned, saturated, tuned
from times.setting import Setting
from times.sums import Parts, decode_sums, named, prefill_sums, sums_of

from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Step
from kvcalc.timing.carried_prompts import carried
from kvcalc.timing.chunks import Chunks, chunks
from kvcalc.timing.closed_loop import Loop, Times, Turn
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.estimate import (
    KernelSums,
    busy_prompt_time,
    front_end_time,
    kernel_sums,
    prompt_launches,
    prompt_time,
    step_time,
)
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, packed_prompts, shared_by
from kvcalc.timing.prompts_first import prompts_first
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import (
    FEWER,
    closed_loop_tpot,
    first_token,
    polling,
    prefills_seen,
    static_batch_time,
    turn_of,
)

SERVED = ("tpot", "ttft")


@dataclass(frozen=True)
class Prepared:
    """A case's task, the numbers its formula needs, and how its metric follows from the formula's result."""

    task: str
    parts: Parts
    unit: float  # the metric is this times the formula's seconds or rate


class Task(NamedTuple):
    prepare: Callable[[Setting, Profile], dict[str, Any]]
    formula: Callable[[Any, Profile], Any]
    rate: bool = False  # the formula gives something per second


# Serving in a closed loop ---------------------------------------------------------------------------------------------


def _running(setting: Setting) -> float:
    """Clients that decode at a time: no more than the pool holds; the rest wait."""
    return min(setting.batch, max(1.0, setting.capacity(setting.held)))


def _chunks(setting: Setting, replica: Replica) -> list[Chunks]:
    """Those of a prompt, one by one: measured prompts have few."""
    asked = setting.requests
    runs = chunks(asked.computed, replica.budget, asked.prefix_hit)
    assert all(run.number == 1 for run in runs)
    return runs


def _prepare_tpot(setting: Setting, profile: Profile) -> dict[str, Any]:
    """Sums of the step and of what a prompt adds to it, as `timing.serving` has them."""
    batch, replica, asked = _running(setting), setting.replica(profile), setting.requests
    turn = turn_of(replica, asked, batch)
    sequences, sharing = (batch, 1.0) if asked.equal else (float(turn.decoding), float(turn.sharing))
    pieces = _chunks(setting, replica)
    decode = Step(decode=0 if profile.prefill_first else sequences, context=asked.context)
    added = KernelSums()
    for one in pieces:
        mixed = Pass(replica, decode._replace(prompts=sharing, tokens=one.tokens, start=one.start))
        added = added + mixed.sums - (KernelSums() if profile.prefill_first else mixed.without_prompts.sums)
    alone, packed = _alone_sums(replica, pieces), packed_prompts(replica, asked).sums / shared_by(replica, asked)
    return (
        named("decode", decode_sums(setting, profile, sequences, asked.context))
        | named("fewer", decode_sums(setting, profile, FEWER * sequences, asked.context))
        | named("carried", added / sharing)
        | named("prefill", alone)
        | named("packed", packed)
        | {f"turn.{one.name}": float(getattr(turn, one.name)) for one in fields(Turn)}
        | {
            "decoding": sequences,
            "batch": batch,
            "equal": float(asked.equal),
            "others": batch - float(prefills_seen(profile, batch)),
            "output_len": setting.output_len,
            "passes": float(len(pieces)),
            "carried.passes": len(pieces) / sharing,
            "packed.passes": 1 / shared_by(replica, asked),
        }
    )


def _alone_sums(replica: Replica, pieces: list[Chunks]) -> KernelSums:
    prompt = KernelSums()
    for one in pieces:
        prompt = prompt + Pass(replica, Step(prompts=1, tokens=one.tokens, start=one.start)).sums
    return prompt


def _step_s(parts: Parts, profile: Profile) -> Any:
    return step_time(sums_of("decode", parts), profile, parts["decoding"])


def _loop(parts: Parts, profile: Profile) -> Loop:
    """As `timing.serving.mixed_loop` has it."""
    turn = Turn(**{one.name: parts[f"turn.{one.name}"] for one in fields(Turn)})
    step_s, sequences = _step_s(parts, profile), parts["decoding"]
    fewer_s = step_time(sums_of("fewer", parts), profile, FEWER * sequences)
    times = Times(
        front_s=front_end_time(profile, turn.clients),
        step_s=step_s,
        prompt_s=_prompt(parts, profile, "carried"),
        alone_s=_prompt(parts, profile, "prefill"),
        packed_s=_prompt(parts, profile, "packed"),
        each_s=np.where(parts["equal"] > 0, 0.0, (step_s - fewer_s) / ((1 - FEWER) * sequences)),
    )
    return prompts_first(turn, times) if profile.prefill_first else carried(turn, times)


def _tpot(parts: Parts, profile: Profile) -> Any:
    step_s = _step_s(parts, profile)
    equal = closed_loop_tpot(step_s, _prompt(parts, profile, "carried"), parts["others"], _asked(parts))
    return np.where(parts["equal"] > 0, equal, _loop(parts, profile).tpot_s)


def _prompt(parts: Parts, profile: Profile, name: str) -> Any:
    """Seconds of a prompt in so many passes."""
    sums = sums_of(name, parts)
    whole = sums_of("decode", parts) if "decode.layers" in parts else sums
    passes = parts.get(f"{name}.passes", parts["passes"])
    return prompt_time(sums, profile) + passes * prompt_launches(profile, whole.layers, whole.routed)


def _asked(parts: Parts) -> Requests:
    return Requests(1.0, parts["output_len"])


def _prepare_ttft(setting: Setting, profile: Profile) -> dict[str, Any]:
    """The same, with clients that wait."""
    return _prepare_tpot(setting, profile) | {"clients": setting.batch}


def _ttft(parts: Parts, profile: Profile) -> Any:
    """As `timing.serving.steady_state` has it; clients beyond those that run at once wait."""
    prompt, running = _prompt(parts, profile, "prefill"), parts["batch"]
    looks = polling(parts["turn.looks"], _asked(parts), running, (prompt, _step_s(parts, profile)))
    equal, loop_s = parts["equal"] > 0, _loop(parts, profile).ttft_s
    ttft = np.where(equal, first_token(profile, running, prompt) if profile.lock_step else loop_s, loop_s + looks)
    rounds = np.maximum(parts["clients"] - running, 0) / running
    return ttft + rounds * (ttft + (parts["output_len"] - 1) * _tpot(parts, profile))


# One batch, or one sequence -------------------------------------------------------------------------------------------


def _prepare_alone(setting: Setting, profile: Profile) -> dict[str, Any]:
    return named("prefill", prefill_sums(setting, profile, setting.batch)) | {"passes": 1.0}


def _alone(parts: Parts, profile: Profile) -> Any:
    return profile.front_end_alone_s + _prompt(parts, profile, "prefill")


def _prepare_decode(setting: Setting, profile: Profile) -> dict[str, Any]:
    batch = setting.batch
    context = float(setting.case.get("context") or setting.context)
    return named("decode", decode_sums(setting, profile, batch, context)) | {"batch": batch}


def _decode(parts: Parts, profile: Profile) -> Any:
    return step_time(sums_of("decode", parts), profile, parts["batch"])


def _prepare_static(setting: Setting, profile: Profile) -> dict[str, Any]:
    return (
        named("decode", decode_sums(setting, profile, setting.batch))
        | named("prefill", prefill_sums(setting, profile, setting.batch))
        | {"batch": setting.batch, "output_len": setting.output_len}
    )


def _static(parts: Parts, profile: Profile) -> Any:
    step = step_time(sums_of("decode", parts), profile, parts["batch"])
    return static_batch_time(step, busy_prompt_time(sums_of("prefill", parts), profile), parts["output_len"])


def _prepare_prompts(setting: Setting, profile: Profile) -> dict[str, Any]:
    """A throughput: one prompt among as many as fill a step."""
    replica, asked = setting.replica(profile).busy, setting.requests
    sums = packed_prompts(replica, asked).sums / shared_by(replica, asked)
    return named("prefill", sums) | {"tokens": setting.input_len}


def _prompts(parts: Parts, profile: Profile) -> Any:
    return parts["tokens"] / busy_prompt_time(sums_of("prefill", parts), profile)


def _prepare_dispatch(setting: Setting, profile: Profile) -> dict[str, Any]:
    """Every row to the ranks of its experts, once."""
    operators = step_operators(setting.model, setting.layout, Step(decode=setting.batch, context=1), "bf16")
    sent = [replace(operator, count=1) for operator in operators if operator.kind == "all_to_all"]
    return named("sent", kernel_sums(sent[:1], setting.machine(profile)))


def _dispatch(parts: Parts, profile: Profile) -> Any:
    return sums_of("sent", parts).total_s(profile)


TASKS = {
    "dispatch": Task(_prepare_dispatch, _dispatch),
    "tpot": Task(_prepare_tpot, _tpot),
    "ttft": Task(_prepare_ttft, _ttft),
    "alone": Task(_prepare_alone, _alone),
    "decode": Task(_prepare_decode, _decode),
    "static": Task(_prepare_static, _static),
    "saturated": Task(prepare_saturated, saturated, rate=True),
    "tuned": Task(prepare_tuned, tuned, rate=True),
    "prompts": Task(_prepare_prompts, _prompts, rate=True),
}
