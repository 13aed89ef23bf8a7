#!/usr/bin/env bash
# Runs a node: containerd, kubelet and kube-proxy. The caller has made namespaces for it (sandbox/realNodes/node.ts), so everything ends with this
# process: containers, mounts, rules of iptables. It ends as soon as one of the three ends.
set -euo pipefail
dir=$1 name=$2 address=$3 kubelet=$4 kube_proxy=$5

mkdir -p "$dir/lib" "$dir/log" "$dir/manifests"
# The usual paths, in this mount namespace only.
mount --make-rprivate /
mount --bind "$dir/lib" /var/lib
mount --bind "$dir/log" /var/log
mount -t tmpfs tmpfs /run
hostname "$name"

containerd --config "$dir/containerd.toml" >>"$dir/log/containerd.log" 2>&1 &
until ctr --address "$dir/containerd.sock" version >/dev/null 2>&1; do sleep 0.1; done
ctr --address "$dir/containerd.sock" --namespace k8s.io images import "$dir/pause.tar" >/dev/null

"$kube_proxy" --config="$dir/kube-proxy.yaml" --hostname-override="$name" >>"$dir/log/kube-proxy.log" 2>&1 &
"$kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubelet.kubeconfig" --hostname-override="$name" \
  --node-ip="$address" --node-labels=type=real --cert-dir="$dir/pki" >>"$dir/log/kubelet.log" 2>&1 &
wait -n || true
echo "error: containerd, kubelet or kube-proxy of $name ended; their logs are in $dir/log" >&2
exit 1
