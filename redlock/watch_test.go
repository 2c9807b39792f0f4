package redlock

import (
	"context"
	"testing"
	"time"

	"lockpick/redlock/driver"
)

type yesNode struct{ Node }

func (yesNode) Submit(r *driver.Request) { r.Collector.Answered(r, 1, nil) }
func (yesNode) Flush()                   {}

// A lease that has been released is no longer watched.
func TestReleasedLeaseIsNotWatched(t *testing.T) {
	l, err := New(Config{TTL: time.Hour, Nodes: []Node{yesNode{}, yesNode{}, yesNode{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var acquired []*Lease
	for range 10 {
		s, err := l.Acquire(context.Background(), "k")
		if err != nil {
			t.Fatal(err)
		}
		s.Context()
		acquired = append(acquired, s)
	}
	for i, at := range []int{3, 0, 9, 5, 1, 2, 8, 7, 6, 4} {
		acquired[at].Release(context.Background())
		if n := len(l.watcher.leases); n != 9-i {
			t.Errorf("%d leases are watched, want %d", n, 9-i)
		}
	}
}
