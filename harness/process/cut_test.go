//go:build linux

package process

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// A PING confirms each kind of cut and its end.
func TestEveryCutIsReadBack(t *testing.T) {
	events := run(t, func(b testRun) {
		for _, c := range []struct{ mode, way, want string }{
			{nemesis.CutHold, nemesis.Request, "PING got no answer: "},
			{nemesis.CutHold, nemesis.Reply, "PING got no answer, though the node gave one"},
			{nemesis.CutDrop, "", "PING got no answer: "},
			{nemesis.CutDrop, nemesis.Request, "PING got no answer: "},
			{nemesis.CutDrop, nemesis.Reply, "PING got no answer, though the node gave one"},
			{nemesis.CutReset, "", "PING was reset"},
			{nemesis.CutRefuse, "", "PING was refused"},
		} {
			for _, link := range []string{"c1-n1", "c1-r1"} {
				if readback := b.mustDo("cut", func() (string, error) { return b.Cut(link, c.mode, c.way) }); !strings.HasPrefix(readback, c.want) {
					t.Errorf("%+v: cut returned %q", c, readback)
				}
				if readback := b.mustDo("mend", func() (string, error) { return b.Mend(link) }); readback != "PING was answered" {
					t.Errorf("%+v: restore returned %q", c, readback)
				}
			}
		}
	})
	if len(events) > 0 {
		t.Errorf("the read-back was recorded: %+v", events)
	}
}

// Shaping a link is read back with the duration of a PING, or else with a description. Removing the
// shape is read back with the number of affected messages.
func TestShapeIsReadBack(t *testing.T) {
	const ms = time.Millisecond
	run(t, func(b testRun) {
		slow := nemesis.Traffic{DelayMin: 20 * ms, DelayMax: 30 * ms}
		narrow := nemesis.Traffic{Way: nemesis.Request, Bandwidth: 10_000}
		for shape, want := range map[nemesis.Traffic]string{
			slow:   "all messages are late by 20ms to 30ms; PING of 1 bytes was answered after ",
			narrow: "all requests pass at 10000 bytes/s; PING of 200 bytes was answered after ",
			{Lose: true, Share: 0.05, Way: nemesis.Reply}:    "5 % of the replies are lost",
			{DelayMin: ms, DelayMax: ms, Share: 0.5}:         "50 % of the messages are late by 1ms to 1ms",
			{DelayMin: time.Minute, DelayMax: 2 * time.Hour}: "all messages are late by 1m0s to 2h0m0s; PING got no answer within 1s",
		} {
			seen := b.mustDo("shape", func() (string, error) { return b.Shape("c1-n1", shape) })
			if !strings.HasPrefix(seen, want) {
				t.Errorf("%v: %q", shape, seen)
			}
			if elapsed, err := time.ParseDuration(seen[strings.LastIndexByte(seen, ' ')+1:]); shape == narrow && (err != nil || elapsed < 20*ms) {
				t.Errorf("%v: %q, but 200 bytes take 20 ms (%v)", shape, seen, err)
			}
			readback, err := b.Unshape("c1-n1", shape)
			if !errors.Is(err, nemesis.ErrIdle) || readback != "it hit 0 of 0 messages; PING was answered" {
				t.Errorf("%v: %q, %v", shape, readback, err)
			}
		}
		b.mustDo("shape", func() (string, error) { return b.Shape("c1-n1", slow) })
		b.mustDo("shape", func() (string, error) { return b.Shape("c1-n1", narrow) })
		conn := dial(t, b.addr("c1", 0))
		fmt.Fprint(conn, "SET k v\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "+OK\r\n" {
			t.Errorf("%q, %v", line, err)
		}
		if readback := b.mustDo("remove the shape", func() (string, error) { return b.Unshape("c1-n1", slow) }); readback != "it hit 2 of 2 messages; another fault affects the link" {
			t.Error(readback)
		}
		if readback := b.mustDo("remove the shape", func() (string, error) { return b.Unshape("c1-n1", narrow) }); readback != "it hit 1 of 1 messages; PING was answered" {
			t.Error(readback)
		}
		for _, link := range []string{"c2-n1", "c1-n9"} {
			if _, err := b.Shape(link, slow); err == nil || !strings.Contains(err.Error(), link) {
				t.Errorf("shape %s: %v", link, err)
			}
		}
	})
}

// If a reply is lost, its command has been applied, but the client never gets the reply. The
// client's next command succeeds on another connection.
func TestTapLosesMessage(t *testing.T) {
	for of, applied := range map[string]bool{nemesis.Request: false, nemesis.Reply: true} {
		events := run(t, func(b testRun) {
			err := b.Tap(nemesis.OnMessage{Link: "c1-n1", Message: "set", Of: of, Nth: 1}, func(m nemesis.HeldMessage) { m.Lose() })
			if err != nil {
				t.Fatal(err)
			}
			if err := b.RunClient(t.Context(), clientSpec("c1", 2), noPoint); err != nil {
				t.Error(err)
			}
		})
		sets := 0
		for _, e := range events {
			if e.Process != "c1-n1" || e.Op != history.OpSet {
				continue
			}
			if sets++; sets == 1 && ((e.AppliedAt > 0) != applied || e.AnsweredAt != 0) || sets == 2 && e.AnsweredAt == 0 {
				t.Errorf("%s: %+v", of, e)
			}
		}
		if sets != 2 {
			t.Errorf("%s: %d sets, want 2", of, sets)
		}
	}
}
