#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A Slurm of one node for the length of one command: sh slurm.sh [-n TASKS] COMMAND [ARGUMENT...] runs
# `srun -n TASKS COMMAND ...`, 4 tasks unless said, and exits as that does. `-s` runs the command itself
# beside the node, with SLURM_CONF set, so that it may call srun and sbatch.
#
# As root, without systemd and without anything of the machine's own Slurm: a key for munge, slurmctld
# and slurmd with files and ports of their own, all in one temporary folder that goes with them. Needs
# Debian's packages munge and slurm-wlm.
#
# What a container needs beside the usual lines of slurm.conf:
# - ProctrackType=linuxproc and task/none: no cgroup is written to;
# - CgroupPlugin=autodetect is not asked, for nothing of cgroup.conf is loaded then;
# - MUNGE's socket in the folder, named by AuthInfo and CredType's default;
# - CPUs=8 whatever the machine has (SlurmdParameters=config_overrides), so that 4 tasks fit one core.
set -eu

tasks=4
itself=no
while getopts n:s option; do
  case $option in
    n) tasks=$OPTARG ;;
    s) itself=yes ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "slurm: asked to run no command; say one: sh slurm.sh env" >&2; exit 2; }
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd srun; do
  command -v "$program" >/dev/null || { echo "slurm: no $program here; install munge and slurm-wlm" >&2; exit 2; }
done

folder=$(mktemp -d "${TMPDIR:-/tmp}/manta-slurm.XXXXXX")
servants=""
end() {
  code=$?
  trap - EXIT INT TERM
  [ $code -eq 0 ] || for log in "$folder"/*.log; do [ -e "$log" ] && tail -n 15 "$log" >&2; done
  for servant in $servants; do kill "$servant" 2>/dev/null || true; done
  for servant in $servants; do wait "$servant" 2>/dev/null || true; done
  rm -rf "$folder"
  exit $code
}
trap end EXIT
trap 'exit 130' INT TERM

free_port() {
  echo $((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))
}

chmod 755 "$folder"
mkdir "$folder/munge" "$folder/state" "$folder/spool"
chmod 755 "$folder/munge"
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 400 "$folder/munge.key"
munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge/socket" \
  --pid-file="$folder/munge/pid" --log-file="$folder/munge.log" --seed-file="$folder/munge/seed" \
  --num-threads=1 >"$folder/munged.out" 2>&1 &
servants="$!"

host=$(hostname -s)
cat >"$folder/slurm.conf" <<END
ClusterName=manta
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF="$folder/slurm.conf"

tries=0
until [ -S "$folder/munge/socket" ]; do
  tries=$((tries + 1))
  [ $tries -lt 100 ] || { cat "$folder/munged.out" >&2; exit 1; }
  sleep 0.1
done
slurmctld -D >"$folder/slurmctld.out" 2>&1 &
servants="$! $servants"
slurmd -D -f "$SLURM_CONF" >"$folder/slurmd.out" 2>&1 &
servants="$! $servants"

tries=0
until sinfo -h -o %t 2>/dev/null | grep -q '^idle'; do
  tries=$((tries + 1))
  [ $tries -lt 300 ] || { cat "$folder"/*.out >&2; sinfo -R >&2 || true; exit 1; }
  sleep 0.1
done

if [ $itself = yes ]; then "$@"; else srun -n "$tasks" "$@"; fi
