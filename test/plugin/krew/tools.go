//go:build tools

// Package krew pins the version of krew that the tests of the plugin run.
package krew

import (
	_ "sigs.k8s.io/krew/cmd/krew"
	_ "sigs.k8s.io/krew/cmd/validate-krew-manifest"
)
