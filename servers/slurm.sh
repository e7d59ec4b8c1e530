#!/bin/bash
# A run on the nodes of a SLURM job, one torchrun on each; what follows the script's name goes to `train`:
#   sbatch --nodes=2 --gpus-per-node=8 servers/slurm.sh --dp 2 --tp 8 --steps 20
# On nodes without GPUs say how many ranks each takes: RANKS=2 sbatch --nodes=2 servers/slurm.sh --dp 4
#SBATCH --ntasks-per-node=1
#SBATCH --output=%x-%j.log
set -euo pipefail
cd "${COURSE:-$SLURM_SUBMIT_DIR}"

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# jobs that share a node must not meet at one port
port=$((20000 + SLURM_JOB_ID % 20000))
ranks=${RANKS:-${SLURM_GPUS_ON_NODE:-1}}

# the cores of a node shared out among its ranks, unless the job says otherwise
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(((SLURM_CPUS_ON_NODE + ranks - 1) / ranks))}

exec srun --kill-on-bad-exit=1 .venv/bin/torchrun \
  --nnodes "$SLURM_NNODES" --nproc-per-node "$ranks" \
  --rdzv-backend c10d --rdzv-endpoint "$first:$port" --rdzv-id "$SLURM_JOB_ID" \
  -m lab_utils train --quiet "$@" --json "$SLURM_SUBMIT_DIR/report-$SLURM_JOB_ID.json"
