//go:build tools

// Package prometheus pins the Prometheus that the tests of deploy/monitoring run.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
