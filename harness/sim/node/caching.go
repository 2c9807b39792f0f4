package node

import (
	"fmt"
	"slices"
	"strings"
)

// clientTracking is CLIENT TRACKING.
func clientTracking(n *Node, s *Session, a []string) any {
	var asked tracking
	for i := 3; i < len(a); i++ {
		switch word := strings.ToUpper(a[i]); {
		case word == "BCAST":
			asked.broadcast = true
		case word == "OPTIN":
			asked.optIn = true
		case word == "OPTOUT":
			asked.optOut = true
		case word == "NOLOOP":
			asked.noLoop = true
		case word == "PREFIX" && i+1 < len(a):
			i++
			asked.prefixes = append(asked.prefixes, a[i])
		case word == "REDIRECT" && i+1 < len(a):
			i++
			if bad := asked.redirectTo(n, a[i]); bad != "" {
				return bad
			}
		default:
			return syntax
		}
	}
	switch {
	case strings.EqualFold(a[2], "ON"):
		return s.track(asked)
	case strings.EqualFold(a[2], "OFF"):
		s.tracking = nil
		s.untrack()
		return ok
	}
	return syntax
}

func (t *tracking) redirectTo(n *Node, id string) failure {
	if t.redirect != 0 {
		return "ERR A client can only redirect to a single other client"
	}
	to, isInt := integer(id)
	if !isInt {
		return notInteger
	}
	if n.open[to] == nil {
		return "ERR The client ID you want redirect to does not exist"
	}
	t.redirect = to
	return ""
}

// track lets a session track, or track otherwise.
func (s *Session) track(t tracking) any {
	old := tracking{}
	if s.tracking != nil {
		old = *s.tracking
	}
	on := s.tracking != nil
	switch {
	case !t.broadcast && len(t.prefixes) > 0:
		return failure("ERR PREFIX option requires BCAST mode to be enabled")
	case on && old.broadcast != t.broadcast:
		return failure("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	case t.broadcast && (t.optIn || t.optOut):
		return failure("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case t.optIn && t.optOut:
		return failure("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case t.optIn && old.optOut || t.optOut && old.optIn:
		return failure("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	if t.broadcast {
		if bad := overlap(old.prefixes, t.prefixes); bad != "" {
			return bad
		}
		if len(t.prefixes) == 0 {
			t.prefixes = []string{""}
		}
		for _, prefix := range t.prefixes {
			if s.node.changed[prefix] == nil {
				s.node.changed[prefix] = map[string]*Session{}
			}
		}
		t.prefixes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(old.prefixes, t.prefixes))))
	}
	s.tracking = &t
	return ok
}

// overlap says which two prefixes would both tell of one key.
func overlap(old, added []string) failure {
	meet := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, p := range added {
		for _, q := range old {
			if meet(p, q) {
				return failure(fmt.Sprintf("ERR Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", p, q))
			}
		}
		for _, q := range added[i+1:] {
			if meet(p, q) {
				return failure(fmt.Sprintf("ERR Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.", p, q))
			}
		}
	}
	return ""
}

// clientCaching is CLIENT CACHING: it says of the next command whether what it reads is
// tracked.
func clientCaching(s *Session, a []string) any {
	t := s.tracking
	yes, no := strings.EqualFold(a[2], "YES"), strings.EqualFold(a[2], "NO")
	switch {
	case t == nil:
		return failure("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case yes && !t.optIn:
		return failure("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case no && !t.optOut:
		return failure("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	case !yes && !no:
		return syntax
	}
	s.caching = true
	return ok
}

// redirection is CLIENT GETREDIR.
func redirection(s *Session) int64 {
	if s.tracking == nil {
		return -1
	}
	return s.tracking.redirect
}

// trackingInfo is CLIENT TRACKINGINFO.
func trackingInfo(s *Session) any {
	t := s.tracking
	if t == nil {
		return pairs{"flags", distinct{"off"}, "redirect", int64(-1), "prefixes", []any{}}
	}
	flags := distinct{"on"}
	for _, f := range []struct {
		on   bool
		name string
	}{
		{t.broadcast, "bcast"}, {t.optIn, "optin"}, {t.optIn && s.caching, "caching-yes"}, {t.optOut, "optout"},
		{t.optOut && s.caching, "caching-no"}, {t.noLoop, "noloop"}, {t.broken, "broken_redirect"},
	} {
		if f.on {
			flags = append(flags, f.name)
		}
	}
	prefixes := []any{}
	for _, p := range t.prefixes {
		prefixes = append(prefixes, p)
	}
	return pairs{"flags", flags, "redirect", t.redirect, "prefixes", prefixes}
}
