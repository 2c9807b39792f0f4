//go:build !linux

package docker

import (
	"context"
	"errors"
	"io"

	"lockpick/harness"
	"lockpick/harness/history"
)

// Run always fails: Probe says why.
func (b *Backend) Run(ctx context.Context, _ harness.Scenario, _ uint64, _ *history.Recorder, _ harness.Body) error {
	reason, _ := b.missing(ctx)
	return errors.New("run: " + reason)
}

func (*Backend) lacksBounds(context.Context) (reason, remedy string) { return "", "" }
func (*Backend) lacksDisks(context.Context) (reason, remedy string)  { return "", "" }
func (*Backend) lacks(context.Context) (reason, remedy string)       { return "", "" } // missing has said no before

// Packets always fails: nobody starts it here.
func Packets(io.Reader, io.Writer) error { return errors.New("lose packets: it needs Linux") }

// Room always fails, likewise.
func Room(io.Reader, io.Writer, io.Writer, []string) error {
	return errors.New("run clients: it needs Linux")
}

func (*Backend) lacksClocks(context.Context) (reason, remedy string) { return "", "" } // likewise

func engineRemark(context.Context) string { return "" } // likewise

type site struct{} // there is none

// Close has nothing to do.
func (*Backend) Close() error { return nil }
