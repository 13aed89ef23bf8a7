#!/bin/sh
# A gate from outside, in its smallest form: a cloud provider lets no pod on a node before its routes are set up.
#
#   cloud-provider.sh reserve NODE   when the machine is ordered, before its kubelet starts
#   cloud-provider.sh run            opens the gate of every node that has the annotation cloud.example.com/routes: ready
#
# Needs kubectl and these rights: get, create, patch nodereadinesses; get, list, watch nodes.
set -eu

# The gates that cloud-provider owns in a NodeReadiness are those that it applied last.
apply_gates() { # NODE GATES
  kubectl apply --server-side --field-manager=cloud-provider -f - <<MANIFEST
apiVersion: nodemaintenance.k8s.io/v1alpha1
kind: NodeReadiness
metadata:
  name: $1
spec:
  readinessGates: $2
MANIFEST
}

# No pod has this label: the gate stays closed until it is removed.
reserve() { # NODE
  apply_gates "$1" '[{name: cloud.example.com/routes, namespace: kube-system,
    selector: {matchLabels: {cloud.example.com/reserved: routes}}}]'
}

run() {
  kubectl get nodes --watch \
    -o jsonpath='{.metadata.name}{" "}{.metadata.annotations.cloud\.example\.com/routes}{"\n"}' |
    while read -r node routes; do
      if [ "$routes" = ready ]; then apply_gates "$node" '[]'; fi
    done
}

"$@"
