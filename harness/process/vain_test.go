//go:build linux

package process

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockpick/harness/real/vdso"
	"lockpick/nemesis"
)

// inject injects a fault as the engine does.
func (b testRun) inject(f nemesis.Fault) (nemesis.Effect, error) {
	b.Helper()
	kind, ok := nemesis.KindOf(f.Kind)
	if !ok {
		b.Fatalf("there is no fault kind %q", f.Kind)
	}
	return kind.Inject(b.cluster, f, f.Targets[0])
}

// Injecting a fault that can't take effect is an error, and the fault is not active.
func TestFaultWithoutEffectIsAnError(t *testing.T) {
	needDisk(t)
	n1, c1 := []string{"n1"}, []string{"c1"}
	slow := nemesis.Fault{Kind: "slow-disk", Targets: n1}
	full := nemesis.Fault{Kind: "full-disk", Targets: n1}
	power := nemesis.Fault{Kind: "power-loss", Targets: n1}
	failover := nemesis.Fault{Kind: "failover", Targets: n1}
	kill := nemesis.Fault{Kind: "kill", Targets: n1}
	down := nemesis.Fault{Kind: "shutdown", Targets: n1}
	stop := nemesis.Fault{Kind: "pause", Targets: n1}
	touch := nemesis.Fault{Kind: "touch", Targets: n1}
	replies := nemesis.Fault{Kind: "cut", Targets: []string{"c1-n1"}, Way: nemesis.Reply}

	runOn(t, withTopology("always", 1, nemesis.Step{Fault: slow}), func(b testRun) {
		mustInject := func(f nemesis.Fault) nemesis.Effect {
			t.Helper()
			x, err := b.inject(f)
			if err != nil || x.ReadBack == "" {
				t.Fatalf("%s: %q, %v", f.Kind, x.ReadBack, err)
			}
			return x
		}
		wantError := func(f nemesis.Fault, why string) {
			t.Helper()
			if x, err := b.inject(f); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %q, %v, want %q", f.Kind, x.ReadBack, err, why)
			}
		}
		for _, f := range []nemesis.Fault{slow, full} {
			if readback, err := mustInject(f).Heal(); !errors.Is(err, nemesis.ErrIdle) || !strings.HasPrefix(readback, "it met 0 ") {
				t.Errorf("%s without effect ended with %q, %v", f.Kind, readback, err)
			}
		}
		// Only replies are cut, so the node received the PING.
		if x := mustInject(replies); !strings.HasPrefix(x.ReadBack, "PING got no answer, though the node gave one") {
			t.Errorf("cut of replies: %q", x.ReadBack)
		}
		wantError(replies, "c1-n1")
		mustInject(kill)
		for _, f := range []nemesis.Fault{slow, full} {
			wantError(f, "n1: it is down")
		}
		for _, f := range []nemesis.Fault{power, failover, kill, down, stop} {
			wantError(f, "it is not running")
		}
		wantError(touch, "n1")

		if err := b.RunClient(t.Context(), clientSpec("c1", 1), noPoint); err != nil {
			t.Log(err) // its node is dead
		}
		for _, kind := range []string{"kill", "pause", "gc"} {
			if x, err := b.inject(nemesis.Fault{Kind: kind, Targets: c1}); !errors.Is(err, nemesis.ErrEnded) {
				t.Errorf("%s on a client that has ended: %q, %v", kind, x.ReadBack, err)
			}
		}
	})
}

func TestClockOfEndedClient(t *testing.T) {
	if err := vdso.Available(); err != nil {
		t.Skip(err)
	}
	duration := time.Second
	runWithClocks(t, 2, func(b testRun) {
		f := nemesis.Fault{Kind: "clock-jump", Targets: []string{"c1"}, By: time.Hour, For: &duration}
		x, err := b.inject(f) // takes effect when the client starts
		if err != nil {
			t.Fatal(err)
		}
		if err := b.RunClient(t.Context(), clientSpec("c1", 1), noPoint); err != nil {
			t.Error(err)
		}
		if readback, err := x.Heal(); err != nil || readback != "c1 has ended" {
			t.Errorf("clock corrected after the client's end: %q, %v", readback, err)
		}
		for _, f := range []nemesis.Fault{f, {Kind: "clock-rate", Targets: []string{"c1"}, Rate: 2}, {Kind: "clock-slew", Targets: []string{"c1"}, By: time.Second},
			{Kind: "clock-strobe", Targets: []string{"c1"}, By: time.Second}} {
			if x, err := b.inject(f); !errors.Is(err, nemesis.ErrEnded) {
				t.Errorf("%s: %q, %v", f.Kind, x.ReadBack, err)
			}
		}
	})
}
