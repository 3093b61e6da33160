"""The machine that operators run on: the GPU with the kernels and the profile of this engine and version.

Made here and nowhere else, so that what a benchmark times is what a command answers with.
"""

from typing import NamedTuple

from kvcalc.catalog.kernels import load_kernels
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.engine_profiles import Profile, profile_for


class Machine(NamedTuple):
    """The data sheet, its measured kernels, and the engine that launches them."""

    gpu: GpuSpec
    kernels: Kernels
    profile: Profile
    gpus_per_node: int | None = None

    @property
    def bandwidth(self) -> float:
        return self.gpu.memory_bandwidth_bytes_per_s


def machine_of(gpu: GpuSpec, deployment: Deployment) -> Machine:
    """The machine of a deployment."""
    profile = profile_for(deployment.engine, deployment.engine_version, maker_of(gpu))
    return with_profile(gpu, profile, deployment.gpus_per_node)


def maker_of(gpu: GpuSpec) -> str:
    """What profiles may say of a GPU: who made it, and its architecture."""
    return f"{gpu.vendor} {gpu.architecture}"


def with_profile(gpu: GpuSpec, profile: Profile, gpus_per_node: int | None = None) -> Machine:
    """A GPU under an engine's profile: engines whose kernels differ from everybody's have constants of their own."""
    kernels = load_kernels(gpu, profile.kernels or None)
    return Machine(gpu, kernels, profile, gpus_per_node or gpu.gpus_per_node)
