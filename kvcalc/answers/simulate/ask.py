"""From what the user typed to a simulation."""

from collections.abc import Callable, Mapping
from typing import Any

from kvcalc.answers.question import Question
from kvcalc.answers.simulate.answer import simulate
from kvcalc.answers.simulate.settings import SimulateSettings, length_of
from kvcalc.answers.simulate.workload import Workload, from_traffic, made
from kvcalc.results.simulate import SimulateReport
from kvcalc.specs.checked import checked


def simulate_from(
    ask: Callable[[dict[str, Any]], Question],
    flags: Mapping[str, Any],
    lengths: Mapping[str, Any],
    own: Mapping[str, Any],
) -> SimulateReport:
    """The simulation that flags ask for.

    Args:
        ask: makes a question of the flags of every command.
        flags: those flags.
        lengths: `input_len` and `output_len` as typed.
        own: flags of `simulate` alone.
    """
    settings = checked(SimulateSettings, dict(own))
    question = ask(dict(flags))
    return simulate(question, settings, workload_of(question, settings, lengths))


def workload_of(question: Question, settings: SimulateSettings, lengths: Mapping[str, Any]) -> Workload:
    """The requests that are asked for."""
    limit = question.deployment.max_model_len or question.model.max_context
    prompt = length_of(lengths.get("input_len"), settings.isl_sigma, "--isl")
    output = length_of(lengths.get("output_len"), settings.osl_sigma, "--osl")
    return from_traffic(made(settings, prompt, output, question.workload.concurrency), limit)
