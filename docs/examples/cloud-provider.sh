#!/bin/sh
# A gate from outside, in its smallest form: a cloud provider lets no pod on a node before its routes are set up.
#
#   cloud-provider.sh reserve NODE   when the machine is ordered, before its kubelet starts
#   cloud-provider.sh run            opens the gate of every node that has the annotation cloud.example.com/routes: ready
#
# Needs kubectl and these rights: get, list, watch, create, patch nodereadinesses; get nodes.
set -eu

gate=cloud.example.com/routes

# The gates that cloud-provider owns in a NodeReadiness are those that it applied last.
apply_gates() { # METADATA GATES
  kubectl apply --server-side --field-manager=cloud-provider -f - <<MANIFEST
apiVersion: nodemaintenance.k8s.io/v1alpha1
kind: NodeReadiness
metadata: $1
spec:
  readinessGates: $2
MANIFEST
}

# No pod has this label: the gate stays closed until it is removed.
reserve() { # NODE
  # The object of a former node of this name goes with it, and would take the reservation along.
  owners=$(kubectl get nodereadiness "$1" --ignore-not-found -o jsonpath='{.metadata.ownerReferences[*].uid}')
  if [ -n "$owners" ]; then kubectl wait --for=delete "nodereadiness/$1" --timeout=60s; fi
  apply_gates "{name: $1}" "[{name: $gate, namespace: kube-system,
    selector: {matchLabels: {cloud.example.com/reserved: routes}}}]"
}

# Of every NodeReadiness that has the gate and belongs to a node: name, UID, UID of the node.
closed() {
  kubectl get nodereadinesses -o go-template='{{range .items}}{{$of := .metadata}}{{range .spec.readinessGates}}{{
    if eq .name "'$gate'"}}{{range $of.ownerReferences}}{{$of.name}} {{$of.uid}} {{.uid}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}'
}

open_if_ready() { # NODE UID UID-OF-THE-NODE
  seen=$(kubectl get node "$1" --ignore-not-found \
    -o jsonpath='{.metadata.uid} {.metadata.annotations.cloud\.example\.com/routes}')
  # By its UID: the object of a namesake is left alone, and none is made for a node that has gone.
  if [ "$seen" = "$3 ready" ]; then apply_gates "{name: $1, uid: $2}" '[]'; fi
}

# What is to be done is seen in the objects, whatever happened to them: so nothing is lost when a request fails.
run() {
  while sleep 1; do
    closed | while read -r node uid owner; do
      open_if_ready "$node" "$uid" "$owner" || echo "$node: again in a second" >&2
    done
  done
}

"$@"
