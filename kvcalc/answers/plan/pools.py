"""Separate pools, with everything a reader asks of them."""

import shlex

from kvcalc.answers.command import command_for
from kvcalc.answers.plan.apart import Apart
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.candidate import flags_of, layout_of, said
from kvcalc.answers.plan.money import HOURS_A_MONTH
from kvcalc.catalog.serve.table import pools_of
from kvcalc.catalog.serve.wrappers import Pool
from kvcalc.results.plan import SeparatePools


def separate_pools(one: Apart, asked: Asked) -> SeparatePools:
    """The answer's row."""
    deployed, flags = one.found.fleet.deployed, flags_of(one.found)
    replicas = one.prefill + one.decode
    return SeparatePools(
        deployment=flags,
        gpu=deployed.gpu.title,
        layout=layout_of(flags),
        prefill_replicas=one.prefill,
        decode_replicas=one.decode,
        batch=one.batch,
        gpus=replicas * deployed.deployment.gpus,
        usd_per_hour=one.usd_per_hour,
        usd_per_month=None if one.usd_per_hour is None else HOURS_A_MONTH * one.usd_per_hour,
        ttft_s=one.ttft,
        tpot_s=one.tpot,
        requests_per_s=one.rate,
        simulate=_simulate(one, asked),
        commands=tuple(pool.command.line for pool in pools(one)),
    )


def pools(one: Apart) -> tuple[Pool, ...]:
    """What the servers of each pool run: prompts, and decoding."""
    question = one.found.fleet.deployed.question
    command, engine = command_for(question), question.deployment.engine
    if command is None:
        return ()
    told = pools_of(engine)
    return tuple(
        Pool(name, command._replace(arguments=(*command.arguments, *told[name])), replicas, told.get("address"))
        for name, replicas in (("prefill", one.prefill), ("decode", one.decode))
    )


def _simulate(one: Apart, asked: Asked) -> str:
    """The command that runs both pools at the rate that they were planned for."""
    workload = asked.workload
    load = {"data_parallel_size": one.prefill + one.decode, "prefill_replicas": one.prefill,
            "input_len": workload.input_len, "output_len": workload.output_len,
            "request_rate": f"{one.rate:.4g}"}  # fmt: skip
    words = ["kvcalc", "simulate", asked.model]
    for name, value in (flags_of(one.found) | load).items():
        words += said(name, value)
    return shlex.join(words)
