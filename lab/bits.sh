#!/usr/bin/env bash
# Bits per character of every method at one size: the same text, network and steps, on the CPU.
#
#   lab/bits.sh TEXT HELD_OUT OUT
#
# TEXT is learned, HELD_OUT measured: characters a-z and spaces. What is kept of each lies in OUT/kept; copied to
# lab/results/bits it makes docs/likelihood.md (make results). Stopped, it goes on where it was. ONLY names some runs.
set -euo pipefail
text=$1 held_out=$2 out=$3
python=${PYTHON:-python3} jobs=${JOBS:-2} steps=${STEPS:-3000} width=${WIDTH:-96} sequences=${SEQUENCES:-512}

# a name, a method, flags of its own
runs=(
  "ar ar"
  "mdlm mdlm"
  "candi-paper candi --candi.rank-min 0.05 --candi.rank-max 0.25"
  "candi-calibrated candi --candi.rank-min 0.1 --candi.rank-max 0.4"
  "candi-bound candi --candi.rank-min 0.1 --candi.rank-max 0.4 --candi.objective bound"
  "udlm udlm"
  "duo duo"
  "onehot onehot --onehot.rank-min 0.05 --onehot.rank-max 0.45"
  "embedding embedding"
)

bare() { # names of files without the folders that they lie in here
  sed -e "s#$out/##g" -e "s#$(dirname "$text")/##g" -e "s#$(dirname "$held_out")/##g"
}

one() { # NAME METHOD [FLAGS]
  local kept=$out/kept/$1
  $python -m candi train --data "$text" --valid "$held_out" --method "$2" "${@:3}" --out "$out/$1" --tokenizer char \
    --length 64 --batch-size 32 --steps "$steps" --learning-rate 2e-3 --warmup 100 --cooldown $((steps / 6)) --ema 0.995 \
    --checkpoint-every $((steps / 2)) --keep 1 --validate-every 0 --sample-every 0 --seed 0 --device cpu --compile false \
    --model.width "$width" --model.blocks 2 --model.heads 4 --model.conditioning 32
  mkdir -p "$kept"
  bare < "$out/$1/run.json" > "$kept/run.json"
  $python -m candi evaluate "$out/$1" --data "$held_out" --sequences "$sequences" --times 32 --batch-size 64 --json \
    --device cpu | bare > "$kept/normal.json"
  case $2 in candi | onehot | embedding)
    $python -m candi evaluate "$out/$1" --data "$held_out" --sequences "$sequences" --times 32 --batch-size 64 --json \
      --device cpu --prior frequencies | bare > "$kept/frequencies.json" ;;
  esac
}

mkdir -p "$out"
for run in "${runs[@]}"; do
  if [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" ${run%% *} "* ]]; then continue; fi
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  one $run > "$out/${run%% *}.log" 2>&1 &
done
for job in $(jobs -p); do wait "$job"; done
if [ -z "${ONLY:-}" ]; then # the model that ships
  mkdir -p "$out/kept/text8"
  $python -m candi evaluate text8 --data "$held_out" --sequences 128 --times 8 --batch-size 64 --json --device cpu | bare \
    > "$out/kept/text8/normal.json"
fi
