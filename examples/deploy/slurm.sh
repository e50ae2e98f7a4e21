#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A job of Slurm: sbatch --ntasks 64 --nodes 4 slurm.sh ./program arguments
#
# srun starts the ranks; each finds its number in Slurm's variables. On several machines they meet
# by a file in ~/.cache/manta/rendezvous (MANTA_RENDEZVOUS: another folder that all of them see) and prove
# the token in ~/.config/manta/token, which the first of them makes. Nothing else is needed.
#SBATCH --job-name=manta
#SBATCH --ntasks=4
#SBATCH --time=00:30:00
set -eu
[ $# -gt 0 ] || { echo "slurm.sh: asked to run nothing; say sbatch slurm.sh ./program" >&2; exit 2; }
exec srun "$@"
