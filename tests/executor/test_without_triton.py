"""A CPU runs the loop without Triton."""

import os
import subprocess
import sys


def test_a_cpu_needs_no_triton() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch\n"
        "from kvcalc.executor.device import Device, open_device\n"
        "from kvcalc.executor.shape import Shape\n"
        "from kvcalc.executor.verify import verify\n"
        "from kvcalc.executor.weights import random_weights\n"
        "device = open_device('cpu')\n"
        "device.versions()\n"
        "with torch.inference_mode():\n"
        "    weights = random_weights(Shape(64, 100, 4, 2, 16, 64, (None, 40)), torch.float32, device.torch)\n"
        "    assert verify(weights, device, 'fp32', 16).passed\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, done.stderr) == (0, "")
