#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What examples/deploy says, as far as one machine can try it: sh deploy.sh <checkout> <program>. A Slurm of
# one node runs the program with srun and by the batch script; the manifest of Kubernetes can be read.
set -eu
root=$1
program=$2
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -ne 0 ]; then
  echo "deploy: slurmd runs as root only, and this is not root: skipped"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work" XDG_CONFIG_HOME="$work/config" XDG_RUNTIME_DIR="$work/run"
mkdir -m 700 "$work/run"

# One line of rank 0, who sees all; the others' main does not come so far.
check() {
  if [ "$(grep -c . "$1")" -eq 1 ] &&
    grep -q '^rank 0 of 4, .*: rank-0 rank-1 rank-2 rank-3; task 42$' "$1"; then
    echo "deploy: $2 has started four ranks"
    return 0
  fi
  echo "deploy: asked $2 for four ranks, found:"
  cat "$1"
  exit 1
}

sh "$here/slurm.sh" -n 4 "$program" hello >"$work/srun"
check "$work/srun" srun
sh "$here/slurm.sh" -s sbatch --wait --chdir="$work" --output="$work/batch" \
  "$root/examples/deploy/slurm.sh" "$program" hello >/dev/null
check "$work/batch" sbatch

python3 - "$root/examples/deploy/kubernetes.yaml" <<'END'
import sys
import yaml

service, job = yaml.safe_load_all(open(sys.argv[1]))
pod = job["spec"]["template"]["spec"]
node = pod["containers"][0]
env = {e["name"]: e["value"] for e in node["env"]}
assert (service["kind"], job["kind"]) == ("Service", "Job"), "kinds"
assert job["spec"]["completionMode"] == "Indexed", "pods have no numbers"
assert int(env["MANTA_WORLD_SIZE"]) == job["spec"]["completions"] == job["spec"]["parallelism"], "sizes"
host, port = env["MANTA_ADDRESS"].split(":")
assert host == f'{job["metadata"]["name"]}-0.{service["metadata"]["name"]}', "the address of pod 0"
assert pod["subdomain"] == service["metadata"]["name"], "names of pods"
assert int(port) == service["spec"]["ports"][0]["port"] == node["ports"][0]["containerPort"], "ports"
mounts = {m["mountPath"] for m in node["volumeMounts"]}
assert env["MANTA_TOKEN_FILE"].rsplit("/", 1)[0] in mounts, "the token's place"
volumes = {v["name"] for v in pod["volumes"]}
used = {m["name"] for c in pod["containers"] + pod["initContainers"] for m in c["volumeMounts"]}
assert used == volumes, "volumes"
print("deploy: the manifest of Kubernetes holds together")
END
