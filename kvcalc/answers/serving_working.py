"""The working of a busy server: what its latencies, rates and costs are made of, by the formulas of its timing."""

from collections.abc import Iterator

from kvcalc.answers.explain import SPECULATED, ends, explain, figure_of
from kvcalc.answers.load import Clients
from kvcalc.answers.performance import Performance
from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Step
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Figure
from kvcalc.results.performance import Serving
from kvcalc.timing.carried_prompts import lengths
from kvcalc.timing.closed_loop import Loop, Times, Turn
from kvcalc.timing.estimate import Estimate, front_end_time
from kvcalc.timing.passes import pass_of
from kvcalc.timing.prompts import carried_time
from kvcalc.timing.prompts_first import along
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import Steady, mixed_loop, polling, prefills_seen

SOURCE = "docs/explanation/time.md: a closed loop of clients"


def serving_working(speed: Performance) -> tuple[Figure, ...]:
    """Every figure of serving; nothing where none is asked for, or nothing runs."""
    serving, asked, together = speed.serving, speed.clients, speed.together
    if serving is None or asked is None or together is None:
        return ()
    figures = [*_alone(speed, serving), *_token(speed, serving)]
    if asked.concurrency > 1:
        figures += _first_token(speed, together)
    if serving.waiting:
        figures += _crowded(serving, together)
    figures += ends("time to first token", serving.ttft_s, "s")
    return (*figures, *_rates(speed, serving), *_costs(speed, serving))


def _alone(speed: Performance, serving: Serving) -> Iterator[Figure]:
    front = speed.deployed.replica.machine.profile.front_end_alone_s
    inputs = {"front_end_s": front, "prompt_s": serving.ttft_alone_s.value - front}
    yield figure_of("time to first token, alone", "front_end_s + prompt_s", inputs, "s", SOURCE)
    yield from ends("time to first token, alone", serving.ttft_alone_s, "s")


def _token(speed: Performance, serving: Serving) -> Iterator[Figure]:
    """A step, and the part of the others' prompts that falls into it."""
    asked, replica = speed.clients, speed.deployed.replica
    if serving.tpot_s is None or asked is None:
        return
    requests, gain = asked.requests, speed.loop_gain
    if requests.equal:
        step_s = float(pass_of(replica, Step(decode=asked.running, context=requests.context)).time_s)
        yield from _drafted(step_s, gain)
        inputs = {
            "step_s": float(step_s / gain.value),
            "clients": asked.running,
            "prompts_before": float(prefills_seen(replica.machine.profile, asked.running)),
            "output_len": requests.output_len,
            "carried_s": float(carried_time(replica, requests, asked.running)),
        }
        formula = "step_s + max(clients - prompts_before, 0) / output_len * carried_s"
        yield figure_of("time per output token", formula, inputs, "s", SOURCE)
    else:
        yield from _mixed_token(replica, asked, serving, gain)
    yield from ends("time per output token", serving.tpot_s, "s")


def _drafted(step_s: float, gain: Estimate) -> Iterator[Figure]:
    """A step's part for each of the tokens that drafts make of it."""
    if gain.value != 1:
        inputs = {"step_s": step_s, "speedup": float(gain.value)}
        yield figure_of("a step, for each token of its drafts", "step_s / speedup", inputs, "s", SPECULATED)


def _mixed_token(replica: Replica, asked: Clients, serving: Serving, gain: Estimate) -> Iterator[Figure]:
    """Where lengths differ: of the others' prompts, those that pass while a request decodes."""
    prompt = serving.ttft_alone_s.value - replica.machine.profile.front_end_alone_s
    turn, times, loop = mixed_loop(replica, asked.requests, asked.running, prompt, gain)
    if asked.running > 1:
        yield _step(turn, times, loop)
    yield from _drafted(float(loop.step_s), gain)
    yield _missed(turn, times, loop, replica.machine.profile.prefill_first)
    inputs = {"clients": asked.running, "first_wave": 1 / asked.requests.waves, "missed": float(loop.missed)}
    formula = "(clients - 1 - missed) * (1 - first_wave / 2)"
    yield figure_of("others' prompts while a request decodes", formula, inputs, "prompts", SOURCE)
    inputs = {"step_s": float(loop.step_s / times.gain), "prompts": float(loop.prompts),
              "carried_s": float(loop.passing_s), "output_len": asked.requests.output_len}  # fmt: skip
    formula = "step_s + prompts / (output_len - 1) * carried_s"
    yield figure_of("time per output token", formula, inputs, "s", SOURCE)


def _step(turn: Turn, times: Times, loop: Loop) -> Figure:
    """A step of those who decode: fewer than where the front end takes no time."""
    inputs = {"step_s": float(times.step_s), "sequences": float(turn.decoding), "decoding": float(loop.decoding),
              "each_s": float(times.each_s)}  # fmt: skip
    return figure_of("a step", "step_s - (sequences - decoding) * each_s", inputs, "s", SOURCE)


def _missed(turn: Turn, times: Times, loop: Loop, first: bool) -> Figure:
    """Of the others' prompts, those that pass while a request does not decode: its own step has some too."""
    name, inputs = "others' prompts missed", {"arriving": float(loop.arriving), "clients": float(turn.clients)}
    if not first:
        inputs |= {"absent_steps": float(loop.absent), "beside": float(loop.load.beside / turn.pieces)}
        return figure_of(name, "min(arriving * (absent_steps - 1) + beside, clients - 1)", inputs, "prompts", SOURCE)
    rho = loop.arriving * loop.passing_s / loop.step_s
    inputs |= {"away_steps": float(_away(turn, times, loop)), "rho": float(rho), "beside": float(loop.load.beside),
               "along": float(along(rho)), "looks": float(turn.looks), "room": float(turn.room)}  # fmt: skip
    before = "min(arriving * away_steps, clients - 1) / (1 + min(rho, 1)) + arriving * (looks - 1) / 2"
    formula = f"min({before} + min(arriving * (looks - 1), room - 1) / 2 + along * beside, clients - 1)"
    return figure_of(name, formula, inputs, "prompts", SOURCE)


def _away(turn: Turn, times: Times, loop: Loop) -> Quantity:
    """Steps of decode that a front end's time holds, and those that are planned."""
    return times.front_s / loop.step_s + turn.ahead + 0.5


def _first_token(speed: Performance, together: Steady) -> Iterator[Figure]:
    """The front end, the prompt, the others' prompts, the step that is under way, and when requests are looked for."""
    asked, replica = speed.clients, speed.deployed.replica
    assert asked is not None
    requests, clients, profile = asked.requests, asked.running, replica.machine.profile
    prompt = float(together.ttft_alone.value) - profile.front_end_alone_s
    tpot = 0.0 if together.tpot is None else float(together.tpot.value)
    front = {"front_end_s": float(front_end_time(profile, clients))}
    least = {"clients": clients, "busy_prompt_s": float(together.prompt_s), "output_len": requests.output_len,
             "tpot_s": tpot}  # fmt: skip
    passing = "clients * busy_prompt_s - (output_len - 1) * tpot_s"
    name = "time to first token, all running"
    if requests.equal and profile.lock_step:
        queue = profile.queue_base_equal + profile.queue_slope_equal * (clients - 1)
        inputs = {**front, "prompt_s": prompt, "prompts": float(queue), **least}
        yield figure_of(name, f"max(front_end_s + prompt_s * prompts, {passing})", inputs, "s", SOURCE)
        return
    turn, times, loop = mixed_loop(replica, requests, clients, prompt, speed.loop_gain)
    if clients > 1:
        yield (_burst if profile.prefill_first else _wait)(turn, times, loop)
    step = float(times.step_s)
    inputs = {
        **front,
        "first_wave": 1 / requests.waves,
        "first_s": float(loop.first_s),
        "wait_s": float(loop.wait_s),
        "own_s": float(loop.own_s),
        "polling_s": 0.0
        if requests.equal
        else float(polling(replica.recv_interval, requests, clients, (prompt, step))),
        **least,
    }
    waits = "first_wave * first_s + (1 - first_wave) * (wait_s + own_s)"
    yield figure_of(name, f"max(front_end_s + {waits} + polling_s, {passing})", inputs, "s", SOURCE)


def _wait(turn: Turn, times: Times, loop: Loop) -> Figure:
    """The rest of the step that is under way, longer where it has prompts, and the steps that are planned already."""
    found = lengths(turn, loop.step_s, loop.arriving, loop.load)
    longer, _, mean_s, square_s2 = (float(one) for one in found)
    inputs = {"step_s": float(loop.step_s), "prompts_s": longer, "mean_s": mean_s, "square_s2": square_s2,
              "ahead": float(turn.ahead), "full_steps": float(turn.queued)}  # fmt: skip
    formula = "square_s2 / (2 * mean_s) + ahead * mean_s + full_steps * (step_s + prompts_s)"
    return figure_of("wait for a step", formula, inputs, "s", SOURCE)


def _burst(turn: Turn, times: Times, loop: Loop) -> Figure:
    """The steps that are planned already, half of a burst of prompts, and half of the step of prompts under way."""
    arriving, away = loop.arriving, _away(turn, times, loop)
    inputs = {"step_s": float(loop.step_s), "ahead": float(turn.ahead), "away_steps": float(away),
              "ends": float(min(arriving * away, turn.others)), "carried_s": float(loop.passing_s),
              "arriving": float(arriving), "own_s": float(loop.own_s), "beside": float(loop.load.beside),
              "along": float(along(arriving * loop.passing_s / loop.step_s))}  # fmt: skip
    burst = "max(max(ends * carried_s - away_steps * step_s, 0) / 2 - (1 - along) * beside * carried_s, 0)"
    rest = "own_s / 2 / (1 + step_s / (arriving * carried_s))"
    return figure_of("wait for a step", f"(ahead + 0.5) * step_s + {burst} + {rest}", inputs, "s", SOURCE)


def _crowded(serving: Serving, together: Steady) -> Iterator[Figure]:
    """With more clients than run at once: the others wait for whole requests to end."""
    inputs = {
        "ttft_s": float(together.ttft.value),
        "waiting": serving.waiting,
        "running": serving.running,
        "output_len": serving.output_len,
        "tpot_s": 0.0 if together.tpot is None else float(together.tpot.value),
    }
    formula = "ttft_s + waiting / running * (ttft_s + (output_len - 1) * tpot_s)"
    yield figure_of("time to first token, with the wait for a place", formula, inputs, "s", SOURCE)


def _rates(speed: Performance, serving: Serving) -> Iterator[Figure]:
    """Little's law: every client has a request in the loop, and each is over after its last token."""
    inputs = {
        "replicas": speed.deployed.deployment.data_parallel_size,
        "clients": serving.concurrency,
        "output_len": serving.output_len,
        "ttft_s": serving.ttft_s.value,
        "tpot_s": 0.0 if serving.tpot_s is None else serving.tpot_s.value,
    }
    formula = "replicas * clients * output_len / (ttft_s + (output_len - 1) * tpot_s)"
    source = "Little 1961: a closed loop"
    yield figure_of("output tokens per second", formula, inputs, "tokens/s", source)
    yield from ends("output tokens per second", serving.output_tokens_per_s, "tokens/s")
    lengths = {"output_tokens_per_s": serving.output_tokens_per_s.value, "input_len": serving.input_len,
               "output_len": serving.output_len}  # fmt: skip
    formula = "output_tokens_per_s * (1 + input_len / output_len)"
    yield figure_of("tokens per second, prompts included", formula, lengths, "tokens/s", "arithmetic")


def _costs(speed: Performance, serving: Serving) -> Iterator[Figure]:
    """The whole bill over the output tokens, and the same bill by the time that each kind of token takes."""
    price, cost, kinds = speed.deployed.price, serving.usd_per_million_output_tokens, serving.usd_per_million_tokens
    if price is None or cost is None:
        return
    bill = {"usd_per_gpu_hour": price.median_usd_per_hour, "gpus": speed.deployed.bill.gpus}
    name, rate = "USD per million output tokens, serving", serving.output_tokens_per_s.value
    yield explain(usd_per_million_tokens, name, tokens_per_s=rate, **bill)
    yield from ends(name, cost, "USD per million tokens")
    if kinds is None:
        return
    shares = {"input": (kinds.input, rate * (serving.input_len - serving.prefix_hit) / serving.output_len),
              "output": (kinds.output, rate)}  # fmt: skip
    if kinds.cached_input is not None:
        shares["cached input"] = (kinds.cached_input, rate * serving.prefix_hit / serving.output_len)
    for kind, (usd, tokens_per_s) in shares.items():
        whole = usd_per_million_tokens(tokens_per_s=tokens_per_s, **bill)
        inputs = {"share_of_time": usd / whole if whole else 0.0, **bill, "tokens_per_s": tokens_per_s}
        formula = "share_of_time * 1_000_000 * usd_per_gpu_hour * gpus / (3600 * tokens_per_s)"
        yield figure_of(f"USD per million {kind} tokens", formula, inputs, "USD per million tokens", "arithmetic")
