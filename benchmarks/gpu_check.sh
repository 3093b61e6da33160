#!/usr/bin/env bash
# The executor on a GPU, in one command and about eight minutes: calibrate, run a grid, check correctness, one JSON.
#
#   benchmarks/gpu_check.sh [OUT.json]        on a machine with a GPU, PyTorch and Triton; writes gpu_check.json
#   DEVICE=cpu QUICK=1 benchmarks/gpu_check.sh    the same motions on any machine, to see that the script works
#   PYTHONS="/old/bin/python /new/bin/python" benchmarks/gpu_check.sh    these too: an old and a new PyTorch
#
# Needs the repository and the extra `run` (pip install -e '.[dev,run]'). Nothing is downloaded; clocks are read, not set.
# On a machine whose driver is too old for its PyTorch it sees that kvcalc says so, and nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-gpu_check.json}
device=${DEVICE:-cuda}
python=$(command -v "${PYTHON:-python}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing is warm: neither a calibration nor a compiled kernel.
export XDG_CACHE_HOME="$work/cache" TRITON_CACHE_DIR="$work/triton"
deadline=$((SECONDS + 470))
others=0

# Each step has what is left of the eight minutes; a step that fails is recorded and the rest goes on.
# `expected`: its exit code, and with 2 what the error says.
step() {
  local name=$1 expected=$2; shift 2
  local left=$((deadline - SECONDS)) start=$SECONDS code=0
  if ((left <= 0)); then
    code=124
  else
    echo "$name: $*" >&2
    timeout "$left" "$@" >"$work/$name.out" 2>"$work/$name.err" || code=$?
  fi
  printf '%s\t%s\t%s\t%s\n' "$name" "$code" "$((SECONDS - start))" "$expected" >>"$work/steps"
}

kvcalc() { step "$1" 0 "$python" -m kvcalc "${@:2}" --device "$device" --json -o "$work/$1.json"; }
probe() { step probe 0 "$python" benchmarks/gpu_probe.py "$work/probe.json" --device "$device" "$@"; }

# A machine as others have it: no C compiler; another GPU than the first, or none of that number.
elsewhere() {
  local bare="$work/bare" line=(-m kvcalc calibrate --device "$device" --patience 0s "$@")
  mkdir -p "$bare"
  local tool; for tool in nvidia-smi rocm-smi; do
    if command -v "$tool" >/dev/null; then ln -sf "$(command -v "$tool")" "$bare/$tool"; fi
  done
  if [[ $device == cpu ]]; then
    step no-compiler 0 env -u CC PATH="$bare" TRITON_CACHE_DIR="$work/none" "$python" "${line[@]}"
    step second-gpu 0 env CUDA_VISIBLE_DEVICES=1 "$python" "${line[@]}"
    return
  fi
  step no-compiler "2 C compiler" env -u CC PATH="$bare" TRITON_CACHE_DIR="$work/none" "$python" "${line[@]}"
  local found=0
  if [[ $("$python" -c 'import torch; print(torch.cuda.device_count())') == 1 ]]; then found="2 --device"; fi
  step second-gpu "$found" env CUDA_VISIBLE_DEVICES=1 "$python" "${line[@]}"
}

usable() { [[ $device == cpu ]] || "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; }

if ! usable; then
  step old-driver "2 --device" "$python" -m kvcalc calibrate --device "$device"
  step unasked "2 PyTorch cannot use it" "$python" -m kvcalc calibrate
elif [[ -n ${QUICK:-} ]]; then
  kvcalc cold-run run smollm2-135m --layers 2 --batch 1 --batch 4 --context 256 --patience 5s
  kvcalc calibrate calibrate --patience 5s
  probe --small
  elsewhere
else
  kvcalc cold-run run smollm2-135m --batch 1 --context 512
  kvcalc calibrate calibrate --patience 20s
  # Contexts and batches that no benchmark of the calibration has.
  kvcalc run-gqa run llama-3-8b --batch 1 --batch 8 --batch 32 --batch 64 --context 512 --context 2k --context 8k
  # The largest page; a depth that a block of 99 KB does not hold is given up by the kernel itself.
  kvcalc run-page-128 run llama-3-8b --layers 8 --block-size 128 --batch 16 --context 2k
  for other in ${PYTHONS:-}; do
    export XDG_CACHE_HOME="$work/cache$((++others))"
    first=$python; python=$other
    kvcalc "calibrate-$others" calibrate --patience 20s
    kvcalc "run-page-128-$others" run llama-3-8b --layers 8 --block-size 128 --batch 16 --context 2k
    python=$first; export XDG_CACHE_HOME="$work/cache"
  done
  step tests 0 "$python" -m pytest -q -m gpu tests/executor
  probe
  kvcalc run-prompts run smollm2-135m --batch 1 --context 512 --prompt 1,15,7 --prompt 3 --new-tokens 8
  elsewhere
  kvcalc run-mha run llama-2-7b --batch 1 --batch 16 --context 1k --context 4k
  kvcalc run-page-16 run llama-3-8b --layers 8 --block-size 16 --batch 16 --context 2k --ragged
  kvcalc run-window run mistral-7b-v0.1 --layers 8 --batch 16 --context 8k
  kvcalc run-fp16 run qwen3-8b --layers 8 --dtype fp16 --batch 8 --context 2k
  kvcalc run-fp32 run smollm2-135m --dtype fp32 --batch 8 --context 2k
fi

"$python" benchmarks/gpu_summary.py "$work" "$out"
