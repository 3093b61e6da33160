"""The machine that operators run on: the GPU with the kernels and the profile of this engine and version.

Made here and nowhere else, so that what a benchmark times is what a command answers with.

Source: the GPU's spec, `gpu_specs/kernels/` and `engines.toml`, each row with its own
"""

from typing import NamedTuple

from kvcalc.catalog.kernels import ggml_kernels, host_bandwidth, load_kernels, local_parts, local_setting
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.ggml import GgmlKernels, Parts, Skips
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.engine_profiles import Profile, profile_for

# What an engine adds to its kernels, of all that a profile says in seconds.
ENGINE_TIMES = (
    "step_s", "moe_step_s", "sequence_s", "layer_s", "eager_layer_s", "moe_eager_layer_s", "prompt_layer_s",
    "moe_prompt_layer_s", "front_end_alone_s", "front_end_s",
)  # fmt: skip


class Machine(NamedTuple):
    """The data sheet, its measured kernels, and the engine that launches them."""

    gpu: GpuSpec
    kernels: Kernels
    profile: Profile
    gpus_per_node: int | None = None
    ggml: GgmlKernels | None = None  # llama.cpp's kernels, where it is the engine
    flash_attention: bool = True
    skips: Skips | None = None  # what llama.cpp's attention leaves out of what the mask hides
    parts: Parts | None = None  # what llama.cpp's models cost in parts
    host_bandwidth: float = 0  # bytes/s of the host's memory, where some of the model stays there
    offloads: bool = False  # some of the model does
    busy: bool = False  # it computes without a pause, and power and heat tell

    @property
    def bandwidth(self) -> float:
        return self.gpu.memory_bandwidth_bytes_per_s

    def calibrated(self, factors: Calibration) -> "Machine":
        """The machine with its terms multiplied: kernels of decode steps, of prompts, and what the engine adds."""
        profile, prompts = self.profile, factors.prompt / factors.decode
        added = {name: getattr(profile, name) * factors.overhead for name in ENGINE_TIMES}
        return self._replace(
            profile=profile._replace(
                kernel_factor=profile.kernel_factor * factors.decode,
                prompt_factor=profile.prompt_factor * prompts,
                busy_factor=profile.busy_factor * prompts,
                **added,
            )
        )

    @property
    def sustained_share(self) -> float:
        """Of the FLOP/s that kernels reached when measured for a moment, what is left where it never pauses."""
        return (self.kernels.sustained_share or 1.0) if self.busy else 1.0


def machine_of(gpu: GpuSpec, deployment: Deployment) -> Machine:
    """The machine of a deployment."""
    machine = _uncalibrated(gpu, deployment)
    factors = gpu.calibration
    return machine if factors is None or factors.engine != deployment.engine else machine.calibrated(factors)


def _uncalibrated(gpu: GpuSpec, deployment: Deployment) -> Machine:
    profile = profile_for(deployment.engine, deployment.engine_version, maker_of(gpu))
    machine = with_profile(gpu, profile, deployment.gpus_per_node)
    if not profile.ggml:
        return machine
    setting = local_setting(gpu, deployment)
    shared = gpu.unified_memory and deployment.host_memory_bandwidth is None
    return machine._replace(
        ggml=ggml_kernels(gpu, setting),
        flash_attention=setting.flash_attention,
        skips=setting.skips,
        parts=local_parts(),
        host_bandwidth=machine.bandwidth if shared else host_bandwidth(deployment.host_memory_bandwidth),
        offloads=deployment.n_gpu_layers is not None or deployment.n_cpu_moe > 0,
    )


def maker_of(gpu: GpuSpec) -> str:
    """What profiles may say of a GPU: who made it, and its architecture."""
    return f"{gpu.vendor} {gpu.architecture}"


def with_profile(gpu: GpuSpec, profile: Profile, gpus_per_node: int | None = None) -> Machine:
    """A GPU under an engine's profile."""
    kernels = load_kernels(gpu)
    return Machine(gpu, kernels, _within_peak(profile, kernels), gpus_per_node or gpu.gpus_per_node)


def _within_peak(profile: Profile, kernels: Kernels) -> Profile:
    """An engine may be quicker with prompts than the kernels that were measured, but not than the data sheet.

    Its factor is of servers' GPUs, whose multiplications reach 0.8 of the peak; those of others already reach all.
    """
    reached = max((row.flops_share for row in kernels.gemm), default=0.0)
    least = min(1.0, reached) / profile.kernel_factor
    return profile if profile.prompt_factor >= least else profile._replace(prompt_factor=least)
