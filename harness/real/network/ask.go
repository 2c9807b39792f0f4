package network

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/harness/resp"
)

// Reply is a server's, which it was asked for and gave between two instants of true time
// there.
type Reply struct {
	Value resp.Value    `json:"value"`
	From  time.Duration `json:"from"`
	To    time.Duration `json:"to"`
}

// AskStamped sends one command to a server past the links, as proc.Ask does, and says
// when.
func AskStamped(ctx context.Context, addr string, args ...string) (r Reply, err error) {
	if len(args) == 0 {
		return r, fmt.Errorf("ask %s: no command", addr)
	}
	r.From = proc.TrueClock()
	r.Value, err = proc.Ask(ctx, addr, args...)
	r.To = proc.TrueClock()
	return r, err
}

// AskStamped is AskStamped of this process.
func (*Network) AskStamped(ctx context.Context, addr string, args ...string) (Reply, error) {
	return AskStamped(ctx, addr, args...)
}

// state is how a server is, which nobody sees from the links that lead there.
type state struct {
	Down bool `json:"down"` // it does not run
	Mute bool `json:"mute"` // it runs and can't answer
}

// clockID names the clock that proc.TrueClock reads: of which start of which machine, and
// of which time namespace there; "": unknown.
func clockID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/time") // before Linux 5.6 there is one
	return strings.TrimSpace(string(boot)) + space
}
