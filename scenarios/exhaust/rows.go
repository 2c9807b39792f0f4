package exhaust

import (
	"fmt"
	"strings"
)

// row is a scope whose verdict is known.
type row struct {
	Scope
	// Cause is what violates the scope's property where the story is run; "": nothing does.
	Cause string
}

// Rows are the scopes whose verdicts are known and that take a fraction of a second: the reference
// within its assumptions, then what takes it beyond them, and locks with a mistake.
func Rows() []row {
	return append([]row{
		{Scope{Nodes: 1, Attempts: 3}, ""},
		{Scope{Nodes: 3, Attempts: 1}, ""},
		{Scope{Nodes: 3, Attempts: 2}, ""},
		{Scope{Nodes: 3, Attempts: 3}, ""},
		{Scope{Nodes: 5, Attempts: 2}, ""},
		{Scope{Nodes: 5, Attempts: 3}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1}, ""},
		{Scope{Nodes: 3, Attempts: 3, Crashes: 2, Restart: Delayed}, ""},
		{Scope{Nodes: 5, Attempts: 2, Crashes: 1, Restart: Delayed}, ""},
		{Scope{Nodes: 3, Attempts: 2, Crashes: 1, Restart: Always}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1, Restart: Delayed}, ""},

		{Scope{Nodes: 1, Attempts: 1, Crashes: 1, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 2, Attempts: 1, Crashes: 2, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 5, Attempts: 1, Crashes: 1, Restart: Forgets}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: everySec}, "lost-unsynced"},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 1}, "expired-early"},
		{Scope{Nodes: 5, Attempts: 1, Jumps: 1}, "expired-early"},

		{Scope{Nodes: 3, Attempts: 1, Mistake: "quorum-half"}, "never-set"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "set-without-nx"}, "overwritten"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "no-elapsed-check"}, "given-shorter"},
		{Scope{Nodes: 3, Attempts: 1, Extends: 1, Mistake: "extension-below-quorum"}, "given-shorter"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-clients"}, "deleted-by-other"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "same-value-for-retries"}, "deleted-by-other"},
		{Scope{Nodes: 5, Attempts: 2, Mistake: "same-value-for-retries"}, "deleted-by-other"},
		{Scope{Nodes: 3, Attempts: 2, Mistake: "plain-del"}, "deleted-by-other"},

		{Scope{Nodes: 1, Attempts: 1, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 5, Attempts: 2, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Always, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Extends: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 5, Attempts: 1, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Always, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 2, Fence: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Delayed, Fence: true, Property: resourceSafety}, "fence-broken"},
		{Scope{Nodes: 3, Attempts: 1, Fence: true, Property: FencingOrder}, ""},
		{Scope{Nodes: 5, Attempts: 1, Fence: true, Property: FencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Always, Fence: true, Property: FencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 2, Fence: true, Property: FencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Forgets, Fence: true, Property: FencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: Delayed, Fence: true, Property: FencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: everySec, Fence: true, Property: FencingOrder}, "token-twice"},
		{Scope{Nodes: 3, Attempts: 1, Mistake: "fence-from-one-node", Fence: true, Property: FencingOrder}, "token-twice"},
	}, hardenedRows()...)
}

// hardenedRows are those of the hardened lock, and of what it is hardened against.
func hardenedRows() []row {
	return []row{
		{Scope{Nodes: 3, Attempts: 3, Lock: Hardened}, ""},
		{Scope{Nodes: 5, Attempts: 2, Lock: Hardened}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1, Lock: Hardened}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Lock: Hardened}, "restarted-and-forgot"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Restart: everySec, Lock: Hardened}, "lost-unsynced"},
		{Scope{Nodes: 3, Attempts: 1, Jumps: 1, Lock: Hardened}, "expired-early"},
		{Scope{Nodes: 3, Attempts: 3, Crashes: 2, Lock: Hardened, Quarantine: true}, ""},
		{Scope{Nodes: 5, Attempts: 2, Crashes: 1, Lock: Hardened, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 2, Extends: 1, Crashes: 1, Lock: Hardened, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 2, Crashes: 1, Restart: everySec, Lock: Hardened, Quarantine: true}, ""},
		{Scope{Nodes: 3, Attempts: 1, Lock: Hardened, Property: resourceSafety}, "overrun"},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: Hardened, Quarantine: true, Property: resourceSafety}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: Hardened, Property: FencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 2, Restart: Delayed, Fence: true, Lock: Hardened, Property: FencingOrder}, ""},
		{Scope{Nodes: 3, Attempts: 1, Crashes: 1, Fence: true, Lock: Hardened, Without: ClockCount, Property: FencingOrder}, InTheModel},
		{Scope{Nodes: 1, Attempts: 1, Property: LeftKeys}, InTheModel},
		{Scope{Nodes: 3, Attempts: 1, Property: LeftKeys}, InTheModel},
		{Scope{Nodes: 3, Attempts: 1, Lock: Hardened, Property: LeftKeys}, ""},
		{Scope{Nodes: 3, Attempts: 1, Extends: 1, Lock: Hardened, Property: LeftKeys}, ""},
		{Scope{Nodes: 5, Attempts: 1, Lock: Hardened, Property: LeftKeys}, ""},
		{Scope{Nodes: 3, Attempts: 1, Lock: Hardened, Without: Tombstones, Property: LeftKeys}, InTheModel},
		{Scope{Nodes: 3, Attempts: 1, Lock: Hardened, Without: Debts, Property: LeftKeys}, InTheModel},
	}
}

// String is a scope in words.
func (s Scope) String() string {
	return strings.Join(append([]string{count(s.Nodes, "node"), count(s.Attempts, "attempt")}, s.besides()...), ", ")
}

// Besides is what a scope has besides nodes and attempts.
func (s Scope) Besides() string { return strings.Join(s.besides(), ", ") }

func (s Scope) besides() (parts []string) {
	if s.Lock != "" {
		parts = append(parts, s.Lock)
	}
	if s.Without != "" {
		parts = append(parts, "without "+s.Without)
	}
	if s.Extends > 0 {
		parts = append(parts, "extend")
	}
	if s.Crashes > 0 {
		parts = append(parts, count(s.Crashes, "crash"), map[Restart]string{"": "nothing kept", Forgets: "nothing kept",
			Delayed: "delayed restart", everySec: "fsync everysec", Always: "fsync always"}[s.Restart])
	}
	if s.Quarantine {
		parts = append(parts, "quarantine")
	}
	if s.Jumps > 0 {
		parts = append(parts, count(s.Jumps, "clock jump"))
	}
	if s.Fence {
		parts = append(parts, "fence")
	}
	if s.Mistake != "" {
		parts = append(parts, s.Mistake)
	}
	return parts
}

func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "sh"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Name is a scope as the name of a file.
func (s Scope) Name() string {
	parts := []string{fmt.Sprintf("exhaust-%dn-%da", s.Nodes, s.Attempts)}
	for _, x := range []struct {
		n    int
		what string
	}{{s.Extends, "extend"}, {s.Crashes, "crash"}, {s.Jumps, "jump"}} {
		if x.n == 1 {
			parts = append(parts, x.what)
		} else if x.n > 1 {
			parts = append(parts, fmt.Sprintf("%d-%s", x.n, x.what))
		}
	}
	if s.Crashes > 0 && s.Restart != "" && s.Restart != Forgets {
		parts = append(parts, string(s.Restart))
	}
	if s.Quarantine {
		parts = append(parts, "quarantine")
	}
	if s.Fence {
		parts = append(parts, "fence")
	}
	for _, part := range []string{s.Mistake, s.Lock, s.Without} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if s.Property != "" && s.Property != MutualExclusion {
		parts = append(parts, string(s.Property))
	}
	return strings.Join(parts, "-")
}
