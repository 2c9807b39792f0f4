//go:build linux

package process

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"lockpick/harness/client"
)

func TestClientEndsWhenItsHarnessIsGone(t *testing.T) {
	in, orders := io.Pipe()
	reports, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- ClientMain(in, out, locks) }()
	s := spec("c1", 1, client.Point{Name: client.AfterAcquire})
	if err := json.NewEncoder(orders).Encode(order{Spec: s}); err != nil {
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
	if err := receive(t, "end", done); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("it ended with %v", err)
	}
}

func TestClientRefusesWhatIsNoOrder(t *testing.T) {
	for _, order := range []string{"", "hello\n", `{"spec":{"name":3}}` + "\n"} {
		var out strings.Builder
		if err := ClientMain(strings.NewReader(order), &out, locks); err == nil || !strings.Contains(out.String(), `{"error":"read order`) {
			t.Errorf("order %q: %v, reported %q", order, err, &out)
		}
	}
}
