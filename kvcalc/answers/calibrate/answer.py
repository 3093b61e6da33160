"""`kvcalc calibrate --from`: results of benchmarks → factors, and a GPU spec that carries them."""

from collections.abc import Sequence
from pathlib import Path

from kvcalc import clock
from kvcalc.answers.calibrate.fit import fit, observations
from kvcalc.answers.question import Question
from kvcalc.catalog.bench.read import read_results
from kvcalc.results.calibration import CalibrationReport, CalibrationResult, Compared
from kvcalc.specs.base import replace
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
    seen = observations(question, [one for path in files for one in read_results(path)])
    plain = Calibration(engine=question.deployment.engine)
    names = ", ".join(path.name for path in files)
    factors = replace(fit(question.deployment.engine, seen), source=names, date=clock.today().isoformat())
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
    inputs = {
        "model": question.model.name,
        "gpu": question.the_gpu.name,
        "engine": question.deployment.engine,
        "from": [str(path) for path in files],
    }
    report = CalibrationReport(inputs=inputs, result=result, assumptions=question.assumptions)
    return report, replace(question.the_gpu, calibration=factors)
