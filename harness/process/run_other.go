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
func (b *Backend) Run(context.Context, scenario.Scenario, uint64, *history.Recorder, harness.Body) error {
	return errors.New("run: " + b.canRun().Reason)
}

var powers any // no run is possible, for any fault

func tryClock(string) error { return nil } // not even a run is possible
