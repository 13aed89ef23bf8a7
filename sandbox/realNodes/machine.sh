#!/usr/bin/env bash
# The machine of a node: boots the node in new namespaces until it is powered off. Everything in the node ends at once with this process, as in a
# power failure. What remains is the disk: the folder of the node.
set -uo pipefail
node=$(dirname "${BASH_SOURCE[0]}")/node.sh
# As the kernel ends the first process of a namespace when one of its processes calls reboot(2).
rebooted=$((128 + $(kill -l HUP)))

while true; do
  setpriv --pdeathsig KILL \
    unshare --mount --pid --uts --ipc --fork --kill-child=SIGKILL --mount-proc bash "$node" "$@"
  status=$?
  [ "$status" -eq "$rebooted" ] || exit "$status"
done
