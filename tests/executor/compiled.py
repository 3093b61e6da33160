"""Compile the kernels for GPUs that need not be there, and read what ptxas made of them. Prints JSON lines.

Run in a process of its own, without TRITON_INTERPRET. Input: {"kernel", "arch", "dtype", "constants"} a line.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvcalc.executor import kernels, kernels_glue

POINTERS = {"fp16": "*fp16", "bf16": "*bf16", "fp32": "*fp32"}
INT_POINTERS = {"table", "lengths"}
FLOAT_POINTERS = {"parts", "sums"}
FLOATS = {"scale", "eps"}


def source(name: str, dtype: str, constants: dict[str, object]) -> ASTSource:
    """The kernel with the types and the alignment that its launch has."""
    kernel = getattr(kernels, name, None) or getattr(kernels_glue, name)
    signature: dict[str, str] = {}
    aligned = {}
    for index, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
        elif argument in FLOATS:
            signature[argument] = "fp32"
        elif argument.endswith("_stride"):
            signature[argument] = "i32"
            aligned[(index,)] = [["tt.divisibility", 16]]
        else:
            pointer = "*i32" if argument in INT_POINTERS else "*fp32" if argument in FLOAT_POINTERS else POINTERS[dtype]
            signature[argument] = pointer
            aligned[(index,)] = [["tt.divisibility", 16]]
    return ASTSource(kernel, signature, constexprs=constants, attrs=aligned)


def usage(cubin: bytes) -> dict[str, int]:
    """Registers, spilled bytes and shared memory, from cuobjdump."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", text))
    return {name.lower(): int(value) for name, value in found.items()}


def main() -> None:
    for case in json.load(sys.stdin):
        options = {"num_warps": case.get("warps", 4), "num_stages": case.get("stages", 3)}
        amd = isinstance(case["arch"], str)
        target = GPUTarget("hip", case["arch"], 64) if amd else GPUTarget("cuda", case["arch"], 32)
        made = triton.compile(source(case["kernel"], case["dtype"], case["constants"]), target=target, options=options)
        found = {} if amd else usage(made.asm["cubin"])
        print(json.dumps({**case, **found, "shared": made.metadata.shared}), flush=True)


if __name__ == "__main__":
    main()
