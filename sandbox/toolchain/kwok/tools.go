//go:build tools

// Package toolchain pins the kubelet simulator that the sandbox runs.
package toolchain

import _ "sigs.k8s.io/kwok/cmd/kwok"
