//go:build !linux

package docker

import (
	"context"
	"errors"

	"lockpick/harness"
	"lockpick/harness/history"
)

// Run always fails: Probe says why.
func (b *Backend) Run(ctx context.Context, _ harness.Scenario, _ uint64, _ *history.Recorder, _ harness.Body) error {
	reason, _ := b.missing(ctx)
	return errors.New("run: " + reason)
}

func (*Backend) lacksDisks(context.Context) (reason, remedy string) { return "", "" }
func (*Backend) lacks(context.Context) (reason, remedy string)      { return "", "" } // missing has said no before

func (*Backend) lacksClocks(context.Context) (reason, remedy string) { return "", "" } // likewise

func engineRemark(context.Context) string { return "" } // likewise

type site struct{} // there is none

// Close has nothing to do.
func (*Backend) Close() error { return nil }
