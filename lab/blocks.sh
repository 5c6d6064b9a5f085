#!/usr/bin/env bash
# Bits per character by the size of the block: masked diffusion and CANDI from one token at a time to the whole window,
# beside autoregression. The same text, network and steps, on the CPU.
#
#   lab/blocks.sh TEXT HELD_OUT OUT
#
# TEXT is learned, HELD_OUT measured: characters a-z and spaces. What is kept of each lies in OUT/kept; copied to
# lab/results/blocks it makes docs/blocks.md (make results). Stopped, it goes on where it was. ONLY names some runs.
set -euo pipefail
text=$1 held_out=$2 out=$3
python=${PYTHON:-python3} jobs=${JOBS:-2} steps=${STEPS:-4000} width=${WIDTH:-96} sequences=${SEQUENCES:-256}
length=${LENGTH:-256}

# a name, a method, flags of its own
runs=(
  "mdlm-16 mdlm --block 16"
  "ar ar"
  "mdlm mdlm"
  "mdlm-4 mdlm --block 4"
  "mdlm-64 mdlm --block 64"
  "mdlm-1 mdlm --block 1"
  "candi-16 candi --block 16 --candi.rank-min 0.1 --candi.rank-max 0.4"
  "candi candi --candi.rank-min 0.1 --candi.rank-max 0.4"
)

bare() { # names of files without the folders that they lie in here
  sed -e "s#$out/##g" -e "s#$(dirname "$text")/##g" -e "s#$(dirname "$held_out")/##g"
}

one() { # NAME METHOD [FLAGS]
  local kept=$out/kept/$1
  $python -m candi train --data "$text" --valid "$held_out" --method "$2" "${@:3}" --out "$out/$1" --tokenizer char \
    --length "$length" --batch-size 8 --steps "$steps" --learning-rate 2e-3 --warmup 100 --cooldown $((steps / 6)) \
    --ema 0.995 --checkpoint-every $((steps / 2)) --keep 1 --validate-every 0 --sample-every 0 --seed 0 --device cpu \
    --compile false --model.width "$width" --model.blocks 2 --model.heads 4 --model.conditioning 32 --model.convolution 7
  mkdir -p "$kept"
  bare < "$out/$1/run.json" > "$kept/run.json"
  $python -m candi evaluate "$out/$1" --data "$held_out" --sequences "$sequences" --times 32 --batch-size 16 --json \
    --device cpu | bare > "$kept/bits.json"
}

mkdir -p "$out"
for run in "${runs[@]}"; do
  if [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" ${run%% *} "* ]]; then continue; fi
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  one $run > "$out/${run%% *}.log" 2>&1 &
done
for job in $(jobs -p); do wait "$job"; done
if [ -z "${ONLY:-}" ]; then # windows of samples four times as long as in training
  $python -m candi_lab figures windows --runs "$out/mdlm-16" "$out/candi-16" "$out/mdlm" --scorer "$out/ar" \
    --text "$held_out" --n "${SAMPLES:-64}" --out "$out/kept"
fi
