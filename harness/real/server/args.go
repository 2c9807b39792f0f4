package server

import (
	"fmt"
	"slices"
)

// persistence lists redis's arguments for each mode of a scenario's topology.
var persistence = map[string][]string{
	"none":     {"--appendonly", "no"},
	"always":   {"--appendonly", "yes", "--appendfsync", "always"},
	"everysec": {"--appendonly", "yes", "--appendfsync", "everysec"},
	"no":       {"--appendonly", "yes", "--appendfsync", "no"},
}

// tells lets a server tell of all that is done to keys, as package life reads it, and never
// lets go of who is slow to read that.
var tells = []string{"--notify-keyspace-events", "KA", "--client-output-buffer-limit", "pubsub 0 0 0"}

// Args are redis-server's arguments on any real backend, beyond where it listens and
// where its data are, for a mode of persistence.
func Args(persist string) ([]string, error) {
	args, ok := persistence[persist]
	if !ok {
		return nil, fmt.Errorf("persistence %q is none of none, everysec, always, no", persist)
	}
	common := []string{"--databases", "1", "--save", "", "--repl-diskless-sync-delay", "0"} // a replica need not wait for others
	return slices.Concat(common, tells, args), nil
}

// SentinelConfig is what a sentinel begins with that others reach at a host. It must
// be in a file that the sentinel can write to, beside which it can make others; the
// arguments are SentinelArgs.
func SentinelConfig(host string) string { return "sentinel announce-ip " + host + "\n" }

// SentinelArgs are redis-server's arguments for a sentinel, before where it listens,
// with the path of its configuration.
func SentinelArgs(config string) []string { return []string{config, "--sentinel"} }
