//go:build !linux

package docker

import (
	"context"
	"errors"
	"io"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// Run fails with the reason that Probe reports.
func (b *backend) Run(ctx context.Context, _ scenario.Scenario, _ uint64, _ *history.Recorder, _ harness.Body) error {
	return errors.New("run: " + b.findCapabilities(ctx).run.Reason)
}

func (*backend) probeEngine(context.Context) capabilities { return capabilities{} } // not called on this system

// Hello fails on this system.
func (b *backend) Hello(ctx context.Context) (string, error) {
	return "", errors.New("ask the adapter: " + b.findCapabilities(ctx).run.Reason)
}

// Agent fails on this system.
func Agent(io.Reader, io.Writer, io.Writer, []string) error {
	return errors.New("start an agent: it requires Linux")
}

func engineRemark(context.Context) string { return "" }

type testbed struct{}

var faultInterfaces any

// Close does nothing on this system.
func (*backend) Close() error { return nil }
