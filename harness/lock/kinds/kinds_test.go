package kinds

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

func TestNames(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"broken", "failover", "redlock", "redsync", "single"}) {
		t.Errorf("kinds: %v", got)
	}
}

func TestNew(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	for name, settings := range map[string]lock.Settings{
		"redlock":  {Kind: "redlock", Timeout: 5 * time.Second},
		"broken":   {Kind: "broken", Mistake: "no-jitter", Timeout: 5 * time.Second},
		"single":   {Kind: "single", Timeout: 5 * time.Second},
		"failover": {Kind: "failover", Timeout: 5 * time.Second},
		"redsync":  {Kind: "redsync", Timeout: 5 * time.Second},
	} {
		l, err := New(lock.Env{
			Client: "c1", Nodes: []lock.Node{{Name: "n1", Addr: addr}}, Dial: (&net.Dialer{}).DialContext,
			Now: time.Now, Wall: time.Now, After: time.After, Random: func(string) uint64 { return 4 }, Settings: settings,
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if h, err := l.Acquire(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := h.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, settings := range map[string]lock.Settings{
		`"chubby": no such kind; say one of broken, failover, redlock, redsync, single`: {Kind: "chubby"},
		`"": no such kind; say one of broken, failover, redlock, redsync, single`:       {},
		"make lock of kind broken: lock broken knows no":                                {Kind: "broken"},
	} {
		if l, err := New(lock.Env{Settings: settings}); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want one with %q", err, want)
		}
	}
}
