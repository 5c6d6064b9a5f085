#!/usr/bin/env bash
# Diffusion from a causal language model: SmolLM2-135M goes on as masked diffusion, CANDI, DUO and autoregression.
#
#   lab/adapt.sh TEXT HELD_OUT OUT
#
# TEXT is learned, HELD_OUT measured: plain text. Masked diffusion sees 90 million tokens alone on the device, so that its
# pace means something; the others a ninth of that, all at once: they show that they start. What is kept of each lies in
# OUT/kept; copied to lab/results/adapt it makes docs/pretrained.md (make results). Stopped, it goes on where it was.
set -euo pipefail
text=$1 held_out=$2 out=$3
source=${SOURCE:-smollm2} python=${PYTHON:-python3}
steps=${STEPS:-1374} fewer=${FEWER:-150} batch=${BATCH:-256} length=${LENGTH:-256} sequences=${SEQUENCES:-512}
pace=${PACE:---deterministic false --keep-activations 1}

learn() { # METHOD STEPS [FLAGS]
  $python -m candi train --init "$source" --method "$1" --data "$text" --valid "$held_out" --out "$out/$1" \
    --steps "$2" --length "$length" --batch-size "$batch" --learning-rate 2e-4 --warmup $(($2 / 14 + 1)) \
    --cooldown $(($2 / 2)) --ema 0.99 --validate-every "$2" --validate-windows "$sequences" --sample-every 0 \
    --checkpoint-every "$2" --keep 1 $pace "${@:3}"
}

look() { # METHOD: what is kept of a run
  local kept=$out/kept/$1
  mkdir -p "$kept"
  cp "$out/$1/metrics.csv" "$out/$1/run.json" "$kept"
  $python -m candi sample "$out/$1" --n 4 --steps 64 --temperature 0.8 --seed 0 --json > "$kept/samples.jsonl"
  $python -m candi evaluate "$out/$1" --data "$held_out" --sequences "$sequences" --batch-size 64 --json > "$kept/bits.json"
}

learn mdlm "$steps"
look mdlm
started=()
for method in candi duo ar; do
  (learn $method "$fewer" --micro-batch-size $((batch / 4)) && look $method) > "$out/$method.log" 2>&1 &
  started+=($!)
done
for job in "${started[@]}"; do wait "$job"; done
