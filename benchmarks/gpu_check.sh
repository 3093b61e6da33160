#!/usr/bin/env bash
# The executor on a GPU, in one command and under eight minutes: calibrate, run a grid, check correctness, one JSON.
#
#   benchmarks/gpu_check.sh [OUT.json]        on a machine with a GPU, PyTorch and Triton; writes gpu_check.json
#   DEVICE=cpu QUICK=1 benchmarks/gpu_check.sh    the same motions on any machine, to see that the script works
#
# Needs the repository and the extra `run` (pip install -e '.[dev,run]'). Nothing is downloaded; clocks are read, not set.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-gpu_check.json}
device=${DEVICE:-cuda}
python=${PYTHON:-python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
deadline=$((SECONDS + 470))

# Each step has what is left of the eight minutes; a step that fails is recorded and the rest goes on.
step() {
  local name=$1; shift
  local left=$((deadline - SECONDS)) start=$SECONDS code=0
  if ((left <= 0)); then
    code=124
  else
    echo "$name: $*" >&2
    timeout "$left" "$@" >"$work/$name.out" 2>"$work/$name.err" || code=$?
  fi
  echo "$name $code $((SECONDS - start))" >>"$work/steps"
}

kvcalc() { step "$1" "$python" -m kvcalc "${@:2}" --device "$device" --json -o "$work/$1.json"; }

if [[ -n ${QUICK:-} ]]; then
  kvcalc calibrate calibrate --patience 5s
  kvcalc run-small run smollm2-135m --layers 2 --batch 1 --batch 4 --context 256
else
  kvcalc calibrate calibrate --patience 20s
  # Contexts and batches that no benchmark of the calibration has.
  kvcalc run-gqa run llama-3-8b --batch 1 --batch 8 --batch 32 --batch 64 --context 512 --context 2k --context 8k
  kvcalc run-prompts run smollm2-135m --batch 1 --context 512 --prompt 1,15,7 --prompt 3 --new-tokens 8
  # One tile in flight less than a block of 99 KB holds is found by the kernel itself; a page of 128 needs the most.
  kvcalc run-page-128 run llama-3-8b --layers 8 --block-size 128 --batch 16 --context 2k
  kvcalc run-mha run llama-2-7b --batch 1 --batch 16 --context 1k --context 4k
  kvcalc run-page-16 run llama-3-8b --layers 8 --block-size 16 --batch 16 --context 2k --ragged
  kvcalc run-window run mistral-7b-v0.1 --layers 8 --batch 16 --context 8k
  kvcalc run-fp16 run qwen3-8b --layers 8 --dtype fp16 --batch 8 --context 2k
  kvcalc run-fp32 run smollm2-135m --dtype fp32 --batch 8 --context 2k
  step tests "$python" -m pytest -q -m gpu tests/executor
fi

"$python" - "$work" "$out" <<'EOF'
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

work, out = map(Path, sys.argv[1:])
steps = {}
for line in (work / "steps").read_text().splitlines():
    name, code, seconds = line.split()
    answer = work / f"{name}.json"
    steps[name] = {
        "exit_code": int(code),
        "seconds": int(seconds),
        "answer": json.loads(answer.read_text()) if answer.is_file() else None,
        "said": ((work / f"{name}.err").read_text() + (work / f"{name}.out").read_text())[-4000:]
        if (work / f"{name}.err").is_file()
        else "",
    }
commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
result = {
    "date": datetime.now(UTC).isoformat(timespec="seconds"),
    "commit": commit or None,
    "seconds": sum(step["seconds"] for step in steps.values()),
    "passed": all(step["exit_code"] == 0 for step in steps.values()),
    "steps": steps,
}
out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
for name, step in steps.items():
    found = ((step["answer"] or {}).get("result") or {}).get("accuracy")
    said = f"off by {found['mean_error']:.0%} on average, {found['worst_error']:.0%} at worst" if found else ""
    terms = [p for p in ((step["answer"] or {}).get("result") or {}).get("points", []) if p.get("resolved")]
    if found and terms:
        worst = max(terms, key=lambda p: abs(p["ratio"] - 1))
        said += f"; batch {worst['batch']}, context {worst['context']}: {worst['term']} by {worst['ratio'] - 1:+.0%}"
    print(f"{name:12} exit {step['exit_code']}  {step['seconds']:4} s  {said}")
print(out)
EOF
