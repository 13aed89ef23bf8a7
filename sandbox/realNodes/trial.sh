#!/usr/bin/env bash
# Does with the kernel what a real node does: a bridge, namespaces, mounts, iptables, a container with its cgroups. Whether a machine permits them shows
# only then. Fails with the message of the first that it forbids, and leaves nothing.
set -euo pipefail
busybox=$1 inside=${2-}

if [ -z "$inside" ]; then
  bridge=nmt$$
  ip link add "$bridge" type bridge
  ip link delete "$bridge"
  exec unshare --mount --net --pid --uts --ipc --fork --kill-child=SIGKILL --mount-proc bash "$0" "$busybox" "nm-trial-$$"
fi

mount --make-rprivate /
mount -t tmpfs tmpfs /run
hostname "$inside"
touch /run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
ip link add eth0 type veth peer name eth1
iptables --table nat --append POSTROUTING --jump MASQUERADE
mkdir -p /run/trial/lower/bin /run/trial/upper /run/trial/work /run/trial/rootfs
cd /run/trial
cp "$busybox" lower/bin/busybox
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work rootfs
runc spec
sed -i 's|"terminal": true|"terminal": false|; s|"sh"|"/bin/busybox", "true"|' config.json
runc run "$inside"
