"""Values of kernel files that no fit makes, each with why. What is set beside them stands where it is used:
`refit_kernels.py` (all-reduces over PCIe, int4 experts) and, of engines, in the `note` of a profile.
"""

from typing import Any

# No case measures these alone; see docs/explanation/time.md.
BY_HAND: dict[str, Any] = {
    "elementwise_share": 0.35,
    "index_s": 30e-6,
    "weight_only_share": {"8": 0.84, "4": 0.75},
    # Of whole prompts in serving: sorting tokens by expert and quantizing them is in it, and in no kernel file.
    "experts_flops_share": {"1": 0.5, "32": 0.2},
}
# Memory of the same kind as the L40S's, whose experts were measured.
AS_L40S: list[dict[str, Any]] = [
    {"dtype": "any", "kernel": "median", "latency_s": 1e-5, "bandwidth_share": 0.79, "note": "as on l40s"},
    {"dtype": "int4", "kernel": "w4a16", "latency_s": 1.8e-5, "bandwidth_share": 0.77, "note": "as mxfp4 on l40s"},
]
BY_HAND_OF: dict[str, dict[str, Any]] = {
    # Kernels were measured for a moment. On these cards multiplications of 8,192 and 10,240 settle at 0.66 to 0.77 of
    # the peak, not at the 0.81 of the kernel cases (zzc0721/torch-performance-test-data, issues 160 and 162), and
    # MLPerf's submissions on eight of them are 12 to 23 % slower than their kernels say. Servers pause: theirs are not.
    "rtx-pro-6000-se": {"sustained_share": 0.84, "experts": AS_L40S},
    # Listed peaks are halved (32-bit accumulation) and clocks above the listed ones: bf16 reaches all of such a peak.
    "geforce": {
        "gemm": [
            {"dtype": "fp8", "latency_s": 4e-6, "bandwidth_share": 0.85, "flops_share": 0.9,
             "note": "by judgement: as bf16, less what quantizing costs"},
            {"dtype": "nvfp4", "latency_s": 6e-6, "bandwidth_share": 0.84, "flops_share": 0.67,
             "note": "as on rtx-pro-6000-se"},
        ],
        "attention": [
            {"dtype": "fp8", "library": "any", "latency_s": 8e-6, "bandwidth_share": 0.85,
             "note": "by judgement: as bf16"},
        ],
        "prefill_attention": [
            {"dtype": "bf16", "latency_s": 1.5e-5, "bandwidth_share": 0.8, "flops_share": 0.84,
             "note": "prompts of 1,024 and 2,048 tokens and what cached tokens add (source of layers.json)"},
        ],
        "experts": AS_L40S,
    },
}  # fmt: skip
