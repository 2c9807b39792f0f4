package node

import "strings"

// getrange reads part of a text, as Redis counts: both ends belong to it, and what is
// below 0 counts from its end.
func getrange(n *Node, _ *Session, a []string) any {
	from, ok1 := integer(a[2])
	to, ok2 := integer(a[3])
	if !ok1 || !ok2 {
		return notInteger
	}
	v, ok := n.find(a[1], text)
	switch {
	case !ok:
		return wrongType
	case v == nil, from < 0 && to < 0 && from > to:
		return ""
	}
	word := v.words[0]
	size := int64(len(word))
	if from < 0 {
		from = max(0, size+from)
	}
	if to < 0 {
		to = max(0, size+to)
	}
	if to = min(to, size-1); from > to {
		return ""
	}
	return word[from : to+1]
}

func getdel(n *Node, _ *Session, a []string) any {
	v, ok := n.find(a[1], text)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nil
	}
	n.drop(a[1])
	return v.words[0]
}

// getex reads a text, and may give it another expiry, or none.
func getex(n *Node, _ *Session, a []string) any {
	word, bad := getexOption(a[2:])
	if bad != "" {
		return bad
	}
	v, ok := n.find(a[1], text)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nil
	}
	switch word {
	case "":
	case "PERSIST":
		if v.expires != 0 {
			n.put(a[1], &value{v.kind, v.words, 0})
		}
	default:
		at, bad := n.until("getex", word, a[3])
		switch {
		case bad != "":
			return bad
		case strings.HasSuffix(word, "AT") && at <= n.millis():
			n.drop(a[1])
		default:
			n.put(a[1], &value{v.kind, v.words, at})
		}
	}
	return v.words[0]
}

// getexOption is the one option that a GETEX has, or "".
func getexOption(a []string) (word string, bad failure) {
	if len(a) == 0 {
		return "", ""
	}
	switch word = strings.ToUpper(a[0]); {
	case word == "PERSIST" && len(a) == 1:
	case (word == "EX" || word == "PX" || word == "EXAT" || word == "PXAT") && len(a) == 2:
	default:
		return "", syntax
	}
	return word, ""
}
