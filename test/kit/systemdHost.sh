#!/usr/bin/env bash
# Runs the systemd of this machine as the first process of namespaces of its own: `systemdHost.sh FOLDER`. Its root is a copy of that of the machine,
# written in memory; it shares the network, and FOLDER/shared as /mnt. Ends when systemd does, and leaves no cgroup.
set -euo pipefail
dir=$1 inside=${2-}

if [ -z "$inside" ]; then
  mkdir -p "$dir/root" "$dir/memory" "$dir/cgroups" "$dir/shared"
  mount -t cgroup2 cgroup2 "$dir/cgroups"
  cgroup=$dir/cgroups/node-maintenance-$$
  end() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      find "$cgroup" -depth -type d -exec rmdir {} \; 2> /dev/null || true
      [ -d "$cgroup" ] || break
      sleep 0.2
    done
    umount "$dir/cgroups"
  }
  trap end EXIT
  mkdir "$cgroup"
  (
    echo "$BASHPID" > "$cgroup/cgroup.procs"
    exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child=SIGKILL bash "$0" "$dir" inside
  )
  exit
fi

mount --make-rprivate /
mount -t tmpfs tmpfs "$dir/memory"
mkdir "$dir/memory/upper" "$dir/memory/work"
root=$dir/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/memory/upper,workdir=$dir/memory/work" "$root"
# What the machine itself starts, and what keeps packages from starting units in an image.
rm -rf "$root/etc/systemd/system" "$root/etc/machine-id" "$root/usr/sbin/policy-rc.d"
mkdir "$root/etc/systemd/system"
touch "$root/etc/machine-id"

mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/mqueue" "$root/dev/hugepages"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount --bind "$dir/shared" "$root/mnt"
cd "$root"
mkdir tmp/machine
pivot_root . tmp/machine
umount --lazy /tmp/machine
rmdir /tmp/machine
exec env -i container=node-maintenance PATH="$PATH" /lib/systemd/systemd --system --unit=multi-user.target
