//go:build !linux

package process

import (
	"context"
	"errors"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// Run always fails. Probe gives the reason.
func (b *backend) Run(context.Context, scenario.Scenario, uint64, *history.Recorder, harness.Body) error {
	return errors.New("run: " + b.probeRun().Reason)
}

var faultCapabilities any // runs are impossible, with or without faults

// checkServer and machineCapabilities are never called, because probeRun has already failed.
func (*backend) checkServer(context.Context) harness.Capability { return harness.Capability{} }

func (*backend) machineCapabilities(context.Context) map[string]harness.Capability { return nil }
