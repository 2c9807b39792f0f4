package real

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/real/proc"
)

// freeLock can be acquired by every client at any time.
type freeLock struct{}

func (freeLock) Acquire(context.Context, string) (lock.Handle, error) { return freeLock{}, nil }
func (freeLock) Release(context.Context) error                        { return nil }
func (freeLock) Deadline() time.Time                                  { return time.Time{} }
func (freeLock) Close() error                                         { return nil }

var locks = map[string]lock.Kind{"free": {New: func(lock.Env) (lock.Lock, error) { return freeLock{}, nil }}}

func TestClientExitsWithoutHarness(t *testing.T) {
	in, orders := io.Pipe()
	reports, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := ClientMain(in, out, locks)
		out.Close() // unblocks the reader if the client exits too early
		done <- err
	}()
	s := client.Spec{
		Name: "c1", Seed: 1, Keys: []string{"k"}, Fence: client.FenceNone, Writes: 1, Cycles: 1, EndTime: time.Minute,
		ArmedPoints: []client.Point{{Name: client.AfterAcquire}}, Lock: lock.Settings{Kind: "free", TTL: 10 * time.Second},
	}
	if err := json.NewEncoder(orders).Encode(clientOrder{Spec: s, Origin: proc.TrueClock()}); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(reports)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"at":"after-acquire"`) {
			break
		}
	}
	go io.Copy(io.Discard, lines)
	orders.Close()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "gone") {
			t.Errorf("ClientMain returned %v, want an error about the harness", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("ClientMain did not return")
	}
}

func TestClientRejectsInvalidOrder(t *testing.T) {
	for _, order := range []string{"", "hello\n", `{"spec":{"name":3}}` + "\n"} {
		var out strings.Builder
		if err := ClientMain(strings.NewReader(order), &out, locks); err == nil || !strings.Contains(out.String(), `{"error":"read order`) {
			t.Errorf("order %q: %v, reported %q", order, err, &out)
		}
	}
}
