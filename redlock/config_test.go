package redlock_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"lockpick/redlock"
)

type unfencedNode struct{ redlock.Node }

func TestRejectsInvalidConfig(t *testing.T) {
	node := newCluster(1).nodes[0]
	for want, change := range map[string]func(*redlock.Config){
		"no nodes: need at least one":                         func(c *redlock.Config) { c.Nodes = nil },
		"node 2 is nil":                                       func(c *redlock.Config) { c.Nodes = []redlock.Node{node, nil} },
		"TTL 0s: must be positive":                            func(c *redlock.Config) { c.TTL = 0 },
		"TTL -1s: must be positive":                           func(c *redlock.Config) { c.TTL = -time.Second },
		"TTL 1.0005s: must be a whole number of milliseconds": func(c *redlock.Config) { c.TTL = time.Second + 500*time.Microsecond },
		"use a longer TTL":                                    func(c *redlock.Config) { c.TTL = 2 * time.Millisecond },
		"timeout -1ns: must be positive":                      func(c *redlock.Config) { c.Timeout = -1 },
		"timeout 6s with a TTL of 10s":                        func(c *redlock.Config) { c.Timeout = 6 * time.Second },
		"drift -0.1: must be a fraction":                      func(c *redlock.Config) { c.Drift = -0.1 },
		"drift NaN: must be a fraction":                       func(c *redlock.Config) { c.Drift = math.NaN() },
		"drift 1: must be a fraction":                         func(c *redlock.Config) { c.Drift = 1 },
		"leaves no time":                                      func(c *redlock.Config) { c.Drift = 0.9999 },
		"retry delay from 2s to 1s":                           func(c *redlock.Config) { c.RetryMin, c.RetryMax = 2*time.Second, time.Second },
		"retry delay from -1ns to 1s":                         func(c *redlock.Config) { c.RetryMin, c.RetryMax = -1, time.Second },
		"-1 tries: must be positive":                          func(c *redlock.Config) { c.Tries = -1 },
		"-1 extensions: must be positive":                     func(c *redlock.Config) { c.Extends = -1 },
		"it must be a Fencer": func(c *redlock.Config) {
			c.Fence, c.Nodes = true, []redlock.Node{node, unfencedNode{node}}
		},
	} {
		cfg := redlock.Config{Nodes: []redlock.Node{node}, TTL: ttl}
		change(&cfg)
		c, err := redlock.Specification(cfg)
		if c != nil || err == nil || !strings.HasPrefix(err.Error(), "configure redlock: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want %q", err, want)
		}
	}
}

// Renewal requires an explicit limit: it must neither stop at a default limit nor continue forever.
func TestRenewalRequiresLimit(t *testing.T) {
	for want, change := range map[string]func(*redlock.Config){
		"renewal every 3s without a limit: set MaxHold": func(*redlock.Config) {},
		"":  func(c *redlock.Config) { c.MaxHold = time.Hour },
		" ": func(c *redlock.Config) { c.Extends = 20 },
	} {
		cfg := redlock.Config{Nodes: []redlock.Node{newCluster(1).nodes[0]}, TTL: ttl, Renew: 3 * time.Second}
		change(&cfg)
		l, err := redlock.New(cfg)
		if want = strings.TrimSpace(want); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want %q", err, want)
		}
		if l != nil {
			l.Close()
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	nodes := []redlock.Node{unfencedNode{newCluster(1).nodes[0]}}
	for _, c := range []struct{ ttl, timeout time.Duration }{{ttl, 50 * time.Millisecond}, {200 * time.Millisecond, 20 * time.Millisecond}} {
		cfg, err := redlock.Config{Nodes: nodes, TTL: c.ttl}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Timeout != c.timeout || cfg.RetryMin != c.timeout || cfg.RetryMax != 4*c.timeout || cfg.Drift != 0.01 || cfg.Extends != 10 {
			t.Errorf("defaults for a TTL of %v: %+v", c.ttl, cfg)
		}
	}
	cfg, err := redlock.Config{Nodes: nodes, TTL: ttl, RetryMax: time.Second, Timeout: 4 * time.Second}.WithDefaults()
	if err != nil || cfg.RetryMin != 0 || cfg.RetryMax != time.Second || cfg.Timeout != 4*time.Second {
		t.Errorf("explicit values changed: %+v, %v", cfg, err)
	}
}
