#!/usr/bin/env bash
# The first process of a node, as systemd is of a machine: it starts the services of the node, and starts one again that ends. SIGTERM reboots the
# node, SIGUSR2 powers it off; machine.sh boots it again. Files in DIR/disabled name the services that are not to run.
set -euo pipefail
dir=$1 name=$2 address=$3 kubelet=$4 kube_proxy=$5 inhibit_delay_max_usec=$6
here=$(dirname "${BASH_SOURCE[0]}")
kubelet_bus=/run/node-maintenance-kubelet-bus/socket

# The usual paths, in this mount namespace only.
mount --make-rprivate /
mount --bind "$dir/lib" /var/lib
mount --bind "$dir/log" /var/log
mount -t tmpfs tmpfs /run
hostname "$name"

# Each boot of a machine has an ID of its own.
cat /proc/sys/kernel/random/uuid >/run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
cp /run/boot_id "$dir/boot_id.next"
mv "$dir/boot_id.next" "$dir/boot_id"

# Programs look for it to find out whether systemd is the init process.
mkdir -p /run/systemd/system /run/dbus /run/services /run/node-maintenance-agent "$(dirname "$kubelet_bus")"
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket

services=()

# Like systemd with Restart=always.
start() {
  local service=$1
  shift
  supervise "$service" "$@" &
  services+=($!)
}

supervise() {
  local service=$1 status
  shift
  while true; do
    while [ -e "$dir/disabled/$service" ]; do sleep 0.5; done
    "$@" >>"$dir/log/$service.log" 2>&1 &
    echo $! >"/run/services/$service"
    status=0
    wait $! || status=$?
    rm "/run/services/$service"
    echo "$service of $name ended with exit code $status; its log is $dir/log/$service.log" >&2
    sleep 1
  done
}

# Ends everything as a machine does that goes down: the processes have two seconds to end by themselves. The exit code is that of a process which
# the signal ended, as with reboot(2).
stop() {
  local signal=$1 process
  trap '' TERM USR2
  kill -KILL "${services[@]}" || true
  for process in /proc/[0-9]*; do
    # A shim would kill its container at once.
    [ "$process" = /proc/1 ] || grep --quiet containerd-shim "$process/comm" || kill -TERM "${process#/proc/}" || true
  done 2>/dev/null
  sleep 2
  kill -KILL -1 || true
  exit $((128 + $(kill -l "$signal")))
}
trap 'stop HUP' TERM
trap 'stop INT' USR2

start dbus-daemon dbus-daemon --config-file="$here/dbus.conf" --nofork --nopidfile
until [ -S /run/dbus/system_bus_socket ]; do sleep 0.1; done
# Debian's interpreter, for which its packages are.
start logind /usr/bin/python3 -m dbusmock --system --template "$here/logind.py" \
  --parameters "{\"InhibitDelayMaxUSec\": $inhibit_delay_max_usec}"

# As in deploy/agent/systemd: the kubelet learns of shutdowns from the agent.
start kubelet-bus xdg-dbus-proxy "$DBUS_SYSTEM_BUS_ADDRESS" "$kubelet_bus" --filter \
  --call='org.freedesktop.login1=*@/org/freedesktop/login1' --talk=org.freedesktop.systemd1 \
  --broadcast='io.k8s.nodemaintenance.Agent=org.freedesktop.login1.Manager.PrepareForShutdown@/org/freedesktop/login1'
until [ -S "$kubelet_bus" ]; do sleep 0.1; done

start containerd containerd --config "$dir/containerd.toml"
until ctr --address "$dir/containerd.sock" version >/dev/null 2>&1; do sleep 0.1; done
ctr --address "$dir/containerd.sock" --namespace k8s.io images import "$dir/pause.tar" >/dev/null

start kube-proxy "$kube_proxy" --config="$dir/kube-proxy.yaml" --hostname-override="$name"
start kubelet env DBUS_SYSTEM_BUS_ADDRESS="unix:path=$kubelet_bus" "$kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubelet.kubeconfig" --hostname-override="$name" \
  --node-ip="$address" --node-labels=type=real --cert-dir="$dir/pki"
start agent bash "$dir/agent.sh"
wait
