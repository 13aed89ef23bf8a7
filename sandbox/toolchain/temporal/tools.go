//go:build tools

// Package toolchain pins the Temporal CLI, whose development server the sandbox runs.
package toolchain

import _ "github.com/temporalio/cli/cmd/temporal"
