"""How fast a step is and what it costs: the bound, the estimate, and their working."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain
from kvcalc.answers.lesson import lesson_step, working
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.reports.base import Figure
from kvcalc.reports.size import Bound, Estimate
from kvcalc.specs.base import Assumption, Frozen


class Speed(Frozen):
    """Of the whole deployment: every data-parallel replica runs `batch` sequences."""

    bound: Bound
    estimate: Estimate | None
    figures: tuple[Figure, ...] = ()
    assumptions: tuple[Assumption, ...] = ()


def speed_of(deployed: Deployed, context: int, batch: int) -> Speed:
    """The decode step of `batch` sequences of `context` tokens on each replica."""
    deployment = deployed.deployment
    replicas = deployment.data_parallel_size
    terms = lesson_step(
        deployed.model, deployed.gpu, deployment.layout, batch, context, deployed.cache_dtype, deployed.peak_flops
    )
    tokens_per_s = batch * replicas / terms.bound_s
    figures = working(terms, batch, replicas)
    cost = None
    if deployment.price_usd_per_hour is not None:
        figure = explain(
            usd_per_million_tokens,
            name="USD per million output tokens at the bound",
            usd_per_gpu_hour=deployment.price_usd_per_hour,
            gpus=deployment.gpus,
            tokens_per_s=tokens_per_s,
        )
        cost = figure.value
        figures = (*figures, figure)
    bound = Bound(
        step_time_s=terms.bound_s,
        output_tokens_per_s=tokens_per_s,
        limit="memory" if terms.memory_time_s >= terms.compute_time_s else "compute",
        usd_per_million_output_tokens=cost,
    )
    return Speed(bound=bound, estimate=None, figures=figures)
