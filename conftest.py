"""What doctests cannot import: GPU kernels, where Triton is not installed."""

import importlib.util

KERNELS = ["kvcalc/executor/kernels.py", "kvcalc/executor/kernels_glue.py"]
collect_ignore = [] if importlib.util.find_spec("triton") else KERNELS
