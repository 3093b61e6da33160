"""What a device, its driver or its compiler can refuse, in the user's words: looked for before the work, told after."""

import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvcalc.errors import KvcalcError

# What an error's name or text holds, what that means, and what to do about it.
KNOWN = (
    ("out of memory", "the device ran out of memory", "a smaller --batch or --context, or --layers N"),
    ("OutOfMemoryError", "the device ran out of memory", "a smaller --batch or --context, or --layers N"),
    ("OutOfResources", "a kernel needs more shared memory than this GPU gives a block", "a smaller --block-size"),
    ("no kernel image", "this PyTorch has no kernels for this GPU", "install a PyTorch build for it: pytorch.org"),
    ("Failed to find C compiler", "Triton found no C compiler", "install gcc or clang, or set CC"),
    ("Python.h", "Triton found no Python headers", "install python3-dev, or a Python that has them"),
    ("driver version is insufficient", "the NVIDIA driver is older than this PyTorch's CUDA", "update the driver"),
    ("driver on your system is too old", "the NVIDIA driver is older than this PyTorch's CUDA", "update the driver"),
    ("CUDA error", "the device failed", "look at `nvidia-smi` and the system's log; KVCALC_DEBUG=1 shows where"),
    ("HIP error", "the device failed", "look at `rocm-smi` and the system's log; KVCALC_DEBUG=1 shows where"),
)


@contextmanager
def told() -> Iterator[None]:
    """Errors of the device leave as a KvcalcError; mistakes of kvcalc's own as they are."""
    try:
        yield
    except Exception as error:
        said = explained(error)
        if said is None:
            raise
        raise said from error


def explained(error: Exception) -> KvcalcError | None:
    """What an error of PyTorch or Triton means; None: it is none of the device's.

    >>> explained(RuntimeError("CUDA error: no kernel image is available")).message
    'this PyTorch has no kernels for this GPU: CUDA error: no kernel image is available'
    >>> explained(ValueError("not mine"))
    """
    if isinstance(error, KvcalcError):
        return None
    text = f"{type(error).__name__}: {error}"
    for sign, meaning, hint in KNOWN:
        if sign in text:
            first = (str(error).strip().splitlines() or [""])[0][:200]
            return KvcalcError(f"{meaning}: {first}", hint=hint)
    short = KvcalcError("not enough memory", hint="a smaller --batch or --context")
    return short if isinstance(error, MemoryError) else None


def is_memory(error: Exception) -> bool:
    """Whether it says that a point does not fit."""
    return isinstance(error, MemoryError) or "out of memory" in str(error) or type(error).__name__ == "OutOfMemoryError"


def preflight(index: int) -> None:
    """Everything that a GPU's kernels need, before minutes are spent: Triton, a compiler, binaries, one launch.

    Raises:
        KvcalcError: what is missing.
    """
    import torch

    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise KvcalcError(f"the GPU's kernels need Triton: {error}", hint="pip install 'kvcalc[run]'") from error
    if not any(shutil.which(name) for name in (os.environ.get("CC", ""), "gcc", "clang", "cc") if name):
        raise KvcalcError("Triton needs a C compiler, and there is none", hint="install gcc or clang, or set CC")
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not headers.is_file():
        raise KvcalcError(f"Triton needs {headers}, which is not there", hint="install python3-dev")
    if torch.version.cuda is not None and not runs_on(torch.cuda.get_device_capability(index), arch_list()):
        major, minor = torch.cuda.get_device_capability(index)
        has = ", ".join(arch_list())
        raise KvcalcError(
            f"this PyTorch has no kernels for compute capability {major}.{minor}: it has {has}",
            hint="install a PyTorch build for this GPU: pytorch.org",
        )
    with told():
        torch.ones(1, device=torch.device("cuda", index)).add_(1).item()


def arch_list() -> list[str]:
    """What this PyTorch was compiled for: sm_90, compute_90."""
    import torch

    found: list[str] = torch.cuda.get_arch_list()
    return found


def runs_on(capability: tuple[int, int], archs: list[str]) -> bool:
    """Whether binaries run: the same major version and no higher minor; or PTX of no higher version.

    >>> runs_on((8, 9), ["sm_80", "sm_90"]), runs_on((12, 0), ["sm_90", "compute_90"]), runs_on((7, 0), ["sm_80"])
    (True, True, False)
    """
    for arch in archs:
        kind, _, number = arch.partition("_")
        digits = "".join(character for character in number if character.isdigit())
        if not digits:
            continue
        major, minor = divmod(int(digits), 10)
        same = capability[0] == major and minor <= capability[1]
        if same if kind == "sm" else (major, minor) <= capability:
            return True
    return not archs
