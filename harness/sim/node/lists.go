package node

func rpush(n *Node, v *value, a []string) any {
	v.words = append(v.words, a[2:]...)
	n.put(a[1], v)
	return int64(len(v.words))
}

func llen(n *Node, v *value, a []string) any {
	return int64(len(v.words))
}

func lrange(n *Node, _ *Session, a []string) any {
	from, ok1 := integer(a[2])
	to, ok2 := integer(a[3])
	if !ok1 || !ok2 {
		return notInteger
	}
	v, ok := n.edit(a[1], list)
	if !ok {
		return wrongType
	}
	size := int64(len(v.words))
	if from < 0 {
		from = max(0, size+from)
	}
	if to < 0 {
		to += size
	}
	out := []any{}
	for i := from; i <= min(to, size-1); i++ {
		out = append(out, v.words[i])
	}
	return out
}
