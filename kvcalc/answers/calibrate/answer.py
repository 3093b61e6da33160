"""`kvcalc calibrate --from`: results of benchmarks → factors, and a GPU spec that carries them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvcalc import clock
from kvcalc.answers.calibrate.both import served_of
from kvcalc.answers.calibrate.fit import fit
from kvcalc.answers.calibrate.notes import doubts, kept
from kvcalc.answers.calibrate.observed import Observation, left_out, observations
from kvcalc.answers.explain import figure_of
from kvcalc.answers.question import Question
from kvcalc.catalog.bench.read import read_results
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure
from kvcalc.results.calibration import CalibrationReport, CalibrationResult, Compared
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.gpu import GpuSpec


def calibrate_from(
    question: Question, files: Sequence[Path], spec_file: Path | None = None
) -> tuple[CalibrationReport, GpuSpec]:
    """Factors that explain the measurements of some files, and the GPU with them.

    Args:
        question: the model, GPU, engine and flags that the measurements were made with.
        files: results of `vllm bench serve`, `sglang.bench_serving`, llama-bench, or logs of requests.
        spec_file: where that GPU will be written; None: nowhere.

    Raises:
        KvcalcError: a file that cannot be read, or a measurement that this deployment cannot have made.
    """
    seen, beyond = _observed(question, files)
    plain = Calibration(engine=question.deployment.engine)
    names = ", ".join(path.name for path in files)
    factors = replace(
        fit(question.deployment.engine, seen), source=names, date=clock.today().isoformat(), served=served_of(question)
    )
    assert factors.error is not None
    assert factors.error_without is not None
    result = CalibrationResult(
        model=question.model.name,
        gpu=question.the_gpu.title,
        engine=question.deployment.engine,
        decode=factors.decode,
        prompt=factors.prompt,
        overhead=factors.overhead,
        error=factors.error,
        error_without=factors.error_without,
        measurements=tuple(
            Compared(
                name=one.name,
                measured_s=one.measured,
                predicted_s=one.predict(plain),
                calibrated_s=one.predict(factors),
            )
            for one in seen
        ),
        spec_file=None if spec_file is None else str(spec_file),
    )
    report = CalibrationReport(
        inputs=_inputs(question, files),
        result=result,
        assumptions=(*question.assumptions, *beyond, *kept(factors)),
        figures=tuple(_working(result)),
        warnings=tuple(doubts(factors)),
    )
    return report, replace(question.the_gpu, calibration=factors)


def _inputs(question: Question, files: Sequence[Path]) -> dict[str, Any]:
    return {
        "model": question.model.name,
        "gpu": question.the_gpu.name,
        "engine": question.deployment.engine,
        "from": [str(path) for path in files],
    }


def _observed(question: Question, files: Sequence[Path]) -> tuple[list[Observation], tuple[Assumption, ...]]:
    """What the files measured, and which of their runs are left out."""
    measured = [one for path in files for one in read_results(path)]
    seen, beyond = observations(question, measured), left_out(question, measured)
    if beyond and not seen:
        hint = "give runs with as many clients as run at once, or fewer"
        raise KvcalcError(f"{beyond[0].value}: {beyond[0].why}", hint=hint)
    return seen, beyond


def _working(result: CalibrationResult) -> Iterator[Figure]:
    """The factors as they were fitted, each measurement beside what is said with them and without, and the errors."""
    fitted = "the factors that bring the terms nearest to the measurements: docs/how-to/calibrate.md"
    for name in ("decode", "prompt", "overhead"):
        yield figure_of(f"factor of {name}", "fitted", {"fitted": getattr(result, name)}, "ratio", fitted)
    errors: dict[str, dict[str, float]] = {"error": {}, "error without the factors": {}}
    for place, one in enumerate(result.measurements, 1):
        for (which, off), said in zip(errors.items(), (one.calibrated_s, one.predicted_s), strict=True):
            inputs = {"said_s": said, "measured_s": one.measured_s}
            formula = "max(said_s / measured_s - 1, 1 - said_s / measured_s)"
            found = figure_of(
                f"{which}, {one.name} ({place})", formula, inputs, "share", "said over measured, less one"
            )
            off[f"error_{place}"] = float(found.value or 0)
            yield found
    for which, off in errors.items():
        if off:
            yield figure_of(which, f"median({', '.join(off)})", off, "share", "the median of the measurements' errors")
