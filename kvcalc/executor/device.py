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

from kvcalc.errors import KvcalcError
from kvcalc.units import KIB, MIB

if TYPE_CHECKING:
    import torch

SPINS = 20_000  # tens of microseconds; the default of libgomp is fifteen times as much
CACHE = 64 * MIB  # taken where the device does not say
CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
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
        return 4 * self.cache_bytes if self.is_gpu else min(2 * self.cache_bytes, self.memory_bytes // 32)

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
            found["driver"] = _nvidia_smi("driver_version", self.index) or "unknown"
        else:
            found["threads"] = str(torch.get_num_threads())
        return found

    def state(self) -> dict[str, str]:
        """What may disturb a measurement, read and never set: clocks and temperature, or the load of the host."""
        if not self.is_gpu:
            return {"load_average": f"{os.getloadavg()[0]:.2f}"}
        asked = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw", "utilization.gpu")
        return {name: value for name in asked if (value := _nvidia_smi(name, self.index))}


def open_device(name: str | None) -> Device:
    """The device of `--device`: cpu, cuda, cuda:1; by default a GPU where there is one.

    Raises:
        KvcalcError: no PyTorch, no such device.
    """
    require_torch()
    import torch

    if name is None:
        return Device("cuda") if torch.cuda.is_available() else Device("cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()) or (kind == "cpu" and index):
        raise KvcalcError(f"--device: {name[:40]!r} is not a device", hint="cpu, cuda or cuda:0")
    if kind == "cuda" and not torch.cuda.is_available():
        build = "this PyTorch was built without CUDA" if torch.version.cuda is None else "PyTorch sees no GPU"
        raise KvcalcError(f"--device {name}: {build}", hint="--device cpu runs here; a GPU needs PyTorch for CUDA")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise KvcalcError(f"--device {name}: there are {torch.cuda.device_count()} GPUs", hint="they count from cuda:0")
    if kind == "cuda":
        torch.cuda.set_device(int(index or 0))  # kernels are launched on the current one
    return Device(kind, int(index or 0))


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


def _nvidia_smi(field: str, index: int) -> str | None:
    """One value of the driver's own tool; None where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, f"--id={index}", f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
