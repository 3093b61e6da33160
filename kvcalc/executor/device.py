"""The device: a CPU or one GPU, what it is called, how to wait for it, and what else is running on it."""

import os
import platform
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from kvcalc.catalog.gpus import load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.executor.faults import preflight
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GIB, KIB, MIB

if TYPE_CHECKING:
    import torch

SPINS = 20_000  # tens of microseconds; the default of libgomp is fifteen times as much
CACHE = 64 * MIB  # taken where the device does not say
CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
STATE = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "utilization.gpu",
         "clocks_throttle_reasons.active")  # fmt: skip
REPAIR = "install a driver and a PyTorch that fit each other: pytorch.org"
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def require_torch() -> None:
    """Say at once what is missing, before any work.

    Where this loads PyTorch, its CPU threads spin only shortly before they sleep: on a shared machine a thread spins
    for one that does not run, and a product takes forty times as long. Left alone, a step loses a tenth by it. And it
    asks for large pages of memory, with which a virtual machine reads a fifth faster, and more steadily.

    Raises:
        KvcalcError: PyTorch cannot be imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise KvcalcError(
            f"this command runs a model and needs PyTorch: {error}", hint="pip install 'kvcalc[run]'"
        ) from error


def torch_dtype(name: str) -> "torch.dtype":
    """bf16, fp16 or fp32 as PyTorch's type.

    Raises:
        KvcalcError: any other type.
    """
    import torch

    if name not in DTYPES:
        raise KvcalcError(f"--dtype: the executor cannot run {name[:40]}", hint=f"one of {', '.join(DTYPES)}")
    found: torch.dtype = getattr(torch, DTYPES[name])
    return found


@dataclass(frozen=True)
class Device:
    """Where tensors live and kernels run."""

    kind: str  # cpu | cuda
    index: int = 0

    @property
    def torch(self) -> "torch.device":
        import torch

        return torch.device(self.kind, self.index) if self.kind == "cuda" else torch.device("cpu")

    @property
    def is_gpu(self) -> bool:
        return self.kind == "cuda"

    @cached_property
    def name(self) -> str:
        import torch

        return torch.cuda.get_device_name(self.index) if self.is_gpu else _cpu_name()

    @cached_property
    def memory_bytes(self) -> int:
        import torch

        if self.is_gpu:
            return int(torch.cuda.get_device_properties(self.index).total_memory)
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @cached_property
    def processors(self) -> int:
        """Streaming multiprocessors, or the threads that PyTorch uses."""
        import torch

        if self.is_gpu:
            return int(torch.cuda.get_device_properties(self.index).multi_processor_count)
        return torch.get_num_threads()

    @cached_property
    def compute_capability(self) -> str | None:
        """Of an NVIDIA GPU: "9.0"."""
        import torch

        if not self.is_gpu or torch.version.cuda is None:
            return None
        return "{}.{}".format(*torch.cuda.get_device_capability(self.index))

    @cached_property
    def cache_bytes(self) -> int:
        """The last-level cache: a GPU's L2, a CPU's largest."""
        import torch

        if self.is_gpu:
            return int(getattr(torch.cuda.get_device_properties(self.index), "L2_cache_size", 0)) or CACHE
        return _cpu_cache() or CACHE

    @property
    def rotated_bytes(self) -> int:
        """Buffers of so many bytes, used in turn, are in no cache when their turn comes again.

        Twice the cache does where the cache is a CPU's, whose size may be far more than this machine's share of it;
        a thirty-second part of the memory is the most.
        """
        if self.is_gpu:
            return max(4 * self.cache_bytes, GIB) if self.has_last_level_cache else 4 * self.cache_bytes
        return min(2 * self.cache_bytes, self.memory_bytes // 32)

    @property
    def has_last_level_cache(self) -> bool:
        """Whether a cache beyond the L2 that is told stands before the memory, as AMD's: MI300X has 256 MB."""
        import torch

        return torch.version.hip is not None

    def free_bytes(self) -> int:
        """Memory that is free now."""
        import torch

        if self.is_gpu:
            return int(torch.cuda.mem_get_info(self.index)[0])
        return _available_ram() or self.memory_bytes

    def synchronize(self) -> None:
        import torch

        if self.is_gpu:
            torch.cuda.synchronize(self.index)

    def versions(self) -> dict[str, str]:
        """What the figures depend on."""
        import torch

        found = {"python": platform.python_version(), "torch": torch.__version__}
        with suppress(PackageNotFoundError):
            found["triton"] = version("triton")
        if self.is_gpu:
            found["cuda"] = str(torch.version.cuda or torch.version.hip)
            found["driver"] = nvidia_smi(("driver_version",), self.uuid).get("driver_version", "unknown")
        else:
            found["threads"] = str(torch.get_num_threads())
        return found

    def state(self) -> dict[str, str]:
        """What may disturb a measurement, read and never set: clocks and temperature, or the load of the host."""
        if not self.is_gpu:
            return {"load_average": f"{os.getloadavg()[0]:.2f}"}
        return nvidia_smi(STATE, self.uuid)

    @property
    def uuid(self) -> str:
        """What the driver's tool calls the GPU: its own numbers know nothing of CUDA_VISIBLE_DEVICES."""
        import torch

        found = getattr(torch.cuda.get_device_properties(self.index), "uuid", None)
        return str(self.index) if found is None else f"GPU-{str(found).removeprefix('GPU-')}"


def open_device(name: str | None) -> Device:
    """The device of `--device`: cpu, cuda, cuda:1; by default a GPU where there is one.

    Raises:
        KvcalcError: no PyTorch, no such device.
    """
    require_torch()
    import torch

    if name is None and not torch.cuda.is_available():
        if why := unusable_gpu():
            raise KvcalcError(f"there is a GPU, and PyTorch cannot use it: {why}", hint=f"{REPAIR}; or --device cpu")
        return Device("cpu")
    name = name or "cuda"
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()) or (kind == "cpu" and index):
        raise KvcalcError(f"--device: {name[:40]!r} is not a device", hint="cpu, cuda or cuda:0")
    if kind == "cuda" and not torch.cuda.is_available():
        raise KvcalcError(f"--device {name}: {cuda_error()}", hint=f"--device cpu runs here; else {REPAIR}")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise KvcalcError(f"--device {name}: there are {torch.cuda.device_count()} GPUs", hint="they count from cuda:0")
    if kind == "cuda":
        torch.cuda.set_device(int(index or 0))  # kernels are launched on the current one
        preflight(int(index or 0))
    return Device(kind, int(index or 0))


def sheet_of(device: Device) -> GpuSpec | None:
    """The data sheet of a GPU by the name that its driver gives; None: there is none."""
    try:
        return load_gpu(device.name) if device.is_gpu else None
    except KvcalcError:
        return None


def cuda_error() -> str:
    """Why PyTorch has no GPU, in its own words, with the driver's version."""
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return "this PyTorch was built without CUDA"
    try:
        torch.cuda.init()
    except Exception as error:
        driver = nvidia_smi(("driver_version",), None).get("driver_version")
        versions = f"PyTorch's CUDA is {torch.version.cuda}" + (f", the driver {driver}" if driver else "")
        return f"{(str(error).splitlines() or ['no reason given'])[0][:200]} ({versions})"
    return "PyTorch sees no GPU"


def unusable_gpu() -> str | None:
    """Why a GPU that the driver's tool lists is not PyTorch's; None: there is none, or it is hidden on purpose."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return cuda_error() if not hidden and nvidia_smi(("name",), None) else None


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def _cpu_cache() -> int | None:
    """The largest cache of the first processor; Linux only."""
    try:
        sizes = [path.read_text(encoding="ascii").strip() for path in CPU_CACHES.glob("index*/size")]
        return max(int(size.removesuffix("K")) for size in sizes) * KIB
    except (OSError, ValueError):
        return None


def _available_ram() -> int | None:
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * KIB
    except (OSError, KeyError, ValueError):
        return None


def nvidia_smi(names: tuple[str, ...], gpu: str | None) -> dict[str, str]:
    """Values of the driver's own tool, all in one call; empty where there is none.

    Args:
        gpu: an UUID or a number; None: the first.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    command = [tool, f"--query-gpu={','.join(names)}", "--format=csv,noheader", *([f"--id={gpu}"] if gpu else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in (done.stdout.splitlines() or [""])[0].split(",")]
    return {name: value for name, value in zip(names, values, strict=False) if value}
