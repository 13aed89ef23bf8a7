#!/bin/sh
# A minimal controller that removes its gate: a cloud provider keeps pods off a node until its routes are set up.
#
#   cloud-provider.sh reserve NODE   before the kubelet of the new node starts
#   cloud-provider.sh run            removes the gate of every node that has the annotation cloud.example.com/routes: ready
#
# Requires kubectl and ClusterRole node-maintenance-gate-writer.
set -eu

gate=cloud.example.com/routes

# With server-side apply, the field manager cloud-provider owns the gates that it applied last.
apply_gates() { # METADATA GATES
  kubectl apply --server-side --field-manager=cloud-provider -f - <<MANIFEST
apiVersion: nodemaintenance.k8s.io/v1alpha1
kind: NodeReadiness
metadata: $1
spec:
  readinessGates: $2
MANIFEST
}

# No pod has this label, so the gate is not ready until it is removed.
reserve() { # NODE
  # The NodeReadiness of a previous node with this name is garbage collected, and with it a reservation in it.
  owners=$(kubectl get nodereadiness "$1" --ignore-not-found -o jsonpath='{.metadata.ownerReferences[*].uid}')
  if [ -n "$owners" ]; then kubectl wait --for=delete "nodereadiness/$1" --timeout=60s; fi
  apply_gates "{name: $1}" "[{name: $gate, namespace: kube-system,
    selector: {matchLabels: {cloud.example.com/reserved: routes}}}]"
}

# Prints name, UID and node UID of each NodeReadiness that has the gate and belongs to a node.
list_gated() {
  kubectl get nodereadinesses -o go-template='{{range .items}}{{$of := .metadata}}{{range .spec.readinessGates}}{{
    if eq .name "'$gate'"}}{{range $of.ownerReferences}}{{$of.name}} {{$of.uid}} {{.uid}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}'
}

remove_gate_if_ready() { # NODE UID UID-OF-THE-NODE
  observed=$(kubectl get node "$1" --ignore-not-found \
    -o jsonpath='{.metadata.uid} {.metadata.annotations.cloud\.example\.com/routes}')
  # With the UID, the object of another node with this name is not changed, and none is created for a deleted node.
  if [ "$observed" = "$3 ready" ]; then apply_gates "{name: $1, uid: $2}" '[]'; fi
}

# Level-triggered: each pass reads the objects, so a failed request is repeated in the next pass.
run() {
  while sleep 1; do
    list_gated | while read -r node uid owner; do
      remove_gate_if_ready "$node" "$uid" "$owner" || echo "$node: retry in a second" >&2
    done
  done
}

"$@"
