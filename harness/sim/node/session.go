package node

import "strings"

func hello(n *Node, s *Session, a []string) any {
	if len(a) > 1 {
		v, isInt := integer(a[1])
		if !isInt {
			return failure("ERR Protocol version is not an integer or out of range")
		}
		if v != 2 && v != 3 {
			return failure("NOPROTO unsupported protocol version")
		}
		if bad := helloOptions(s, a[2:]); bad != "" {
			return bad
		}
		s.resp3 = v == 3
	}
	proto := int64(2)
	if s.resp3 {
		proto = 3
	}
	return pairs{"server", "redis", "version", version, "proto", proto, "id", s.id,
		"mode", "standalone", "role", "master", "modules", []any{}}
}

func helloOptions(s *Session, a []string) failure {
	for i := 0; i < len(a); {
		switch {
		case strings.EqualFold(a[i], "AUTH") && i+2 < len(a):
			if a[i+1] != "default" {
				return wrongPass
			}
			i += 3
		case strings.EqualFold(a[i], "SETNAME") && i+1 < len(a):
			s.name = a[i+1]
			i += 2
		default:
			return failure("ERR Syntax error in HELLO option '" + a[i] + "'")
		}
	}
	return ""
}

const wrongPass = failure("WRONGPASS invalid username-password pair or user is disabled.")

// auth knows the default user only, who has no password.
func auth(_ *Node, _ *Session, a []string) any {
	switch {
	case len(a) == 2:
		return failure("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case len(a) > 3:
		return syntax
	case a[1] != "default":
		return wrongPass
	}
	return ok
}

func selectDB(n *Node, s *Session, a []string) any {
	i, isInt := integer(a[1])
	if !isInt {
		return notInteger
	}
	if i != 0 {
		if i > 0 && i < redisDatabases {
			n.lacks(s, "SELECT "+a[1])
		}
		return failure("ERR DB index is out of range")
	}
	return ok
}

// client also takes SETINFO, which Redis knows since 7.2: libraries send it unasked.
func client(n *Node, s *Session, a []string) any {
	want := map[string]int{"ID": 2, "GETNAME": 2, "SETNAME": 3, "SETINFO": 4, "KILL": -3, "TRACKING": -3, "CACHING": 3, "GETREDIR": 2, "TRACKINGINFO": 2}
	sub := strings.ToUpper(a[1])
	words, known := want[sub]
	if !known {
		return unknownSubcommand(a)
	}
	if !(command{arity: words}).takes(len(a)) {
		return wrongNumber("client|" + strings.ToLower(sub))
	}
	switch sub {
	case "ID":
		return s.id
	case "KILL":
		return clientKill(n, s, a[2:])
	case "TRACKING":
		return clientTracking(n, s, a)
	case "CACHING":
		return clientCaching(s, a)
	case "GETREDIR":
		return redirection(s)
	case "TRACKINGINFO":
		return trackingInfo(s)
	case "GETNAME":
		if s.name == "" {
			return nil
		}
		return s.name
	case "SETNAME":
		if strings.ContainsFunc(a[2], func(r rune) bool { return r < '!' || r > '~' }) {
			return failure("ERR Client names cannot contain spaces, newlines or special characters.")
		}
		s.name = a[2]
	}
	return ok
}

// clientKill ends another session by its number, which is all that it can tell sessions by.
func clientKill(n *Node, s *Session, a []string) any {
	if len(a) != 2 || !strings.EqualFold(a[0], "ID") {
		n.lacks(s, "CLIENT KILL "+strings.ToUpper(a[0]))
		return syntax
	}
	id, isInt := integer(a[1])
	if !isInt || id < 1 {
		return failure("ERR client-id should be greater than 0")
	}
	other := n.open[id]
	if other == nil || other == s || other.quit {
		return int64(0)
	}
	if other.quit = true; len(other.pushed) == 0 {
		n.pushed = append(n.pushed, other)
	}
	return int64(1)
}

func quit(_ *Node, s *Session, _ []string) any {
	s.quit = true
	return ok
}
