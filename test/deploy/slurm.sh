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
# What makes it run in a container, beside the usual lines of slurm.conf:
# - proctrack/linuxproc, task/none and jobacct_gather/none: no cgroup is read or written;
# - auth/munge with a socket in the folder, so that the machine's own munged is not asked;
# - CPUs=8 whatever the machine has (config_overrides), so that 4 tasks fit on one core;
# - CR_Core: else the first job takes all memory, and one that it submits waits for ever.
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
command=""
# One after the other, slurmd first: it does not end while it has to tell slurmctld of a task's end, and
# nobody hears it. Ten seconds are for the case that it still doesn't.
stop() {
  kill "$1" 2>/dev/null || return 0
  tries=0
  while kill -0 "$1" 2>/dev/null && [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
  kill -9 "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
end() {
  code=$?
  trap - EXIT INT TERM
  if [ -n "$command" ] && kill "$command" 2>/dev/null; then wait "$command" || true; fi
  [ $code -eq 0 ] || for log in "$folder"/*.log; do [ -e "$log" ] && tail -n 15 "$log" >&2; done
  for servant in $servants; do stop "$servant"; done
  rm -rf "$folder"
  exit $code
}
trap end EXIT
trap 'exit 130' INT TERM

# Two ports that nobody has and that the kernel gives to nobody by itself.
is_taken() {
  grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") " /proc/net/tcp /proc/net/tcp6 2>/dev/null
}
port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))
while is_taken $port || is_taken $((port + 1)); do port=$((port + 2)); done

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
SlurmctldPort=$port
SlurmdPort=$((port + 1))
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

# Beside this shell, which would hear of a signal only when the command has ended otherwise.
exec 3<&0
if [ $itself = yes ]; then "$@" <&3 & else srun -n "$tasks" "$@" <&3 & fi
command=$!
wait "$command"
