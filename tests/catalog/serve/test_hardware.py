"""Containers on each vendor's GPUs: the image that its makers publish, and the devices that it is given."""

import pytest
import yaml

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.serve.emit import command_of
from kvcalc.catalog.serve.hardware import hardware
from kvcalc.catalog.serve.program import find_call
from kvcalc.catalog.serve.wrappers import Pool, compose, compose_pools, kubernetes
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment

# Images as the engines' own pages name them: `hardware.toml` has the sources.
IMAGES = [
    ("h100-sxm", {"engine": "vllm"}, "vllm/vllm-openai:latest", "nvidia.com/gpu"),
    ("mi300x", {"engine": "vllm", "engine_version": "0.17.0"}, "vllm/vllm-openai-rocm:v0.17.0", "amd.com/gpu"),
    ("mi325x", {"engine": "sglang", "engine_version": "0.5.9"}, "lmsysorg/sglang:v0.5.9-rocm700-mi30x", "amd.com/gpu"),
    ("mi355x", {"engine": "sglang", "engine_version": "0.5.9"}, "lmsysorg/sglang:v0.5.9-rocm700-mi35x", "amd.com/gpu"),
    ("rx7900xtx", {"engine": "llamacpp", "engine_version": "6000"}, "ghcr.io/ggml-org/llama.cpp:server-rocm-b6000",
     "amd.com/gpu"),
    ("rx7900xtx", {"engine": "llamacpp", "backend": "vulkan"}, "ghcr.io/ggml-org/llama.cpp:server-vulkan",
     "amd.com/gpu"),
    ("arc-b580", {"engine": "llamacpp"}, "ghcr.io/ggml-org/llama.cpp:server-intel", "gpu.intel.com/xe"),
    ("arc-a770-16g", {"engine": "llamacpp"}, "ghcr.io/ggml-org/llama.cpp:server-intel", "gpu.intel.com/i915"),
]  # fmt: skip


@pytest.mark.parametrize("gpu, said, image, resource", IMAGES)
def test_image_and_devices(gpu: str, said: dict[str, str], image: str, resource: str) -> None:
    deployment = checked(Deployment, said)
    on, command = hardware(deployment, load_gpu(gpu)), command_of("some/model", deployment)
    assert command is not None
    assert on.image == image
    pod = next(yaml.safe_load_all(kubernetes(Pool("server", command, 3), 2, on)))["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"limits": {resource: 2}}
    service = yaml.safe_load(compose(command, 2, on))["services"]["server"]
    if load_gpu(gpu).vendor == "NVIDIA":
        assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 2
    else:
        assert "/dev/dri" in service["devices"]
        assert ("/dev/kfd" in service["devices"]) == (load_gpu(gpu).vendor == "AMD")
        assert list(service["environment"].values()) == ["0,1"]
    call = find_call(compose(command, 2, on))
    assert (call.line, call.version) == (deployment.engine, deployment.engine_version)


def test_pools_see_gpus_of_their_own() -> None:
    deployment = Deployment()
    command = command_of("some/model", deployment)
    assert command is not None
    pools = [Pool("prefill", command, 1, "VLLM_NIXL_SIDE_CHANNEL_HOST"), Pool("decode", command, 1)]
    services = yaml.safe_load(compose_pools(pools, 2, hardware(deployment, load_gpu("mi300x"))))["services"]
    assert [one["environment"]["HIP_VISIBLE_DEVICES"] for one in services.values()] == ["0,1", "2,3"]
    assert services["prefill"]["environment"]["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "prefill"


@pytest.mark.parametrize("gpu, said", [
    ("gaudi3", {"engine": "vllm"}), ("mi300x", {"engine": "trtllm"}), ("mi100", {"engine": "vllm"}),
    ("mi210", {"engine": "sglang"}), ("mi300x", {"engine": "vllm", "engine_version": "0.11"}),
    ("apple-m4-max-40c-64g", {"engine": "llamacpp"}), ("tpu-v5e", {"engine": "vllm"}),
])  # fmt: skip
def test_without_an_image_it_is_refused(gpu: str, said: dict[str, str]) -> None:
    with pytest.raises(KvcalcError, match="has no"):
        hardware(checked(Deployment, said), load_gpu(gpu))


@pytest.mark.parametrize("model, volume, folder", [
    ("llama-3-8b-q8_0.gguf", "./:/models", "/models"), ("/data/llama.gguf", "/data:/data", None),
])  # fmt: skip
def test_a_file_is_mounted(model: str, volume: str, folder: str | None) -> None:
    deployment = Deployment(engine="llamacpp")
    command = command_of(model, deployment)
    assert command is not None
    on = hardware(deployment, load_gpu("rtx4090"))
    service = yaml.safe_load(compose(command, 1, on))["services"]["server"]
    assert volume in service["volumes"]
    assert service.get("working_dir") == folder
    pod = next(yaml.safe_load_all(kubernetes(Pool("server", command, 1), 1, on)))["spec"]["template"]["spec"]
    inside = volume.partition(":")[2]
    assert {"name": "models", "hostPath": {"path": inside}} in pod["volumes"]
    assert pod["containers"][0].get("workingDir") == folder
