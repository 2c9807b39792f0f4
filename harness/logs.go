package harness

import (
	"context"
	"fmt"
	"sync"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// logs are the resource's own, a key each: the true order of its writes. When each was
// applied, the links have seen.
type logs struct {
	mu      sync.Mutex
	applied map[string]int64 // unique value → when the resource had answered it
}

// see is shown every event as it is recorded.
func (l *logs) see(ev history.Event) {
	if ev.Op != history.OpWrite && ev.Op != history.OpRead {
		return
	}
	if ev.Applied > 0 && ev.Value != "" && ev.Process != scenario.ResourceName {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.applied[ev.Value] = ev.Applied
	}
}

// read reads the logs of some keys, and records them.
func (l *logs) read(ctx context.Context, c Cluster, keys []string, rec record) error {
	for _, key := range keys {
		reply, err := c.Resource(ctx, "LRANGE", client.LogKey(key), "0", "-1")
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", key, err)
		}
		entries, ok := reply.([]any)
		if !ok {
			return fmt.Errorf("read the log of %s: got %T", key, reply)
		}
		for _, it := range entries {
			ev, err := client.ParseLog(key, fmt.Sprint(it))
			if err != nil {
				return err
			}
			l.mu.Lock()
			ev.Process, ev.Applied = scenario.ResourceName, l.applied[ev.Value]
			l.mu.Unlock()
			rec.add(ev)
		}
	}
	return nil
}
