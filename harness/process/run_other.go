//go:build !linux

package process

import (
	"context"
	"errors"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// Run always fails: Probe says why.
func (b *backend) Run(context.Context, scenario.Scenario, uint64, *history.Recorder, harness.Body) error {
	return errors.New("run: " + b.canRun().Reason)
}

var powers any // no run is possible, for any fault

// trust and own are never asked: canRun has said no before.
func (*backend) trust(context.Context) harness.Capability { return harness.Capability{} }

func (*backend) own(context.Context) map[string]harness.Capability { return nil }
