package lock

import (
	"fmt"
	"math"
	"time"
)

// What a library gets where the scenario says nothing: the TTL of the other kinds, and what
// redsync has for itself.
const (
	libraryTTL      = 10 * time.Second
	libraryTimeout  = 0.05 // of the TTL
	libraryRetryMin = 50 * time.Millisecond
	libraryRetryMax = 250 * time.Millisecond
)

// ForLibrary is the settings for a lock that is a library as it is published, with a value
// for each that it can't do without. The error is of what no library has: a mistake, fencing
// tokens, a limit of extensions, and nodes that are asked in turn. name is the kind's; nodes
// and ask say what to do where there is none, and where Ask is another.
func (e Env) ForLibrary(name, nodes, ask string) (Settings, error) {
	s := e.Settings
	switch {
	case len(e.Nodes) == 0:
		return s, fmt.Errorf("lock %s has no %s", name, nodes)
	case s.Mistake != "":
		return s, fmt.Errorf("lock %s makes no mistake %q: that is for kind broken", name, s.Mistake)
	case s.Fence:
		return s, fmt.Errorf("lock %s has no fencing tokens: leave fence out", name)
	case s.Extends != 0:
		return s, fmt.Errorf("lock %s has no limit of extensions: leave extends out", name)
	case s.Ask != "" && s.Ask != "multiplexed":
		return s, fmt.Errorf("lock %s can't ask %q: %s", name, s.Ask, ask)
	}
	if s.TTL == 0 {
		s.TTL = libraryTTL
	}
	if s.Timeout == 0 {
		s.Timeout = time.Duration(libraryTimeout * float64(s.TTL))
	}
	if s.RetryMax == 0 {
		s.RetryMin, s.RetryMax = libraryRetryMin, libraryRetryMax
	}
	if s.Tries == 0 {
		s.Tries = math.MaxInt
	}
	return s, nil
}
