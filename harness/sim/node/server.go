package node

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// version is the Redis whose answers these are.
const version = "7.0.15"

func clockTime(n *Node, _ *Session, _ []string) any {
	now := n.config.Clock.Now()
	return []any{strconv.FormatInt(now/1e9, 10), strconv.FormatInt(now%1e9/1e3, 10)}
}

func ping(_ *Node, s *Session, a []string) any {
	if len(a) <= 2 && s.listens() && !s.resp3 {
		return []any{"pong", strings.Join(a[1:], "")}
	}
	switch len(a) {
	case 1:
		return status("PONG")
	case 2:
		return a[1]
	}
	return wrongNumber("ping")
}

func dbsize(n *Node, _ *Session, _ []string) any {
	keys, _ := n.count()
	return keys
}

func flushAll(n *Node, _ *Session, a []string) any {
	if len(a) > 2 || len(a) == 2 && !syncWord(a[1]) {
		return syntax
	}
	n.flushed()
	if n.teller == nil {
		clear(n.keys)
		n.note(change{all: true})
		return ok
	}
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		if n.look(key) != nil {
			n.end(key, history.KeyFlushed)
		}
	}
	return ok
}

func syncWord(s string) bool { return strings.EqualFold(s, "SYNC") || strings.EqualFold(s, "ASYNC") }

func info(n *Node, s *Session, a []string) any {
	for _, word := range a[1:] {
		if redisSections[strings.ToLower(word)] {
			n.lacks(s, "INFO "+strings.ToUpper(word))
		}
	}
	wanted := func(section string) bool {
		return len(a) == 1 || slices.ContainsFunc(a[1:], func(word string) bool {
			return slices.Contains([]string{section, "all", "default", "everything"}, strings.ToLower(word))
		})
	}
	var sections []string
	if wanted("server") {
		sections = append(sections, fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nprocess_id:%d\r\nrun_id:%s\r\n",
			version, n.config.ProcessID, n.config.RunID))
	}
	if wanted("persistence") {
		status := "ok"
		if n.appender.failed {
			status = "err"
		}
		sections = append(sections, fmt.Sprintf("# Persistence\r\nloading:0\r\naof_enabled:%d\r\naof_last_write_status:%s\r\naof_pending_bio_fsync:%d\r\n",
			yesNo(n.config.Disk != nil), status, yesNo(n.appender.syncing)))
	}
	if wanted("keyspace") {
		text := "# Keyspace\r\n"
		if keys, expires := n.count(); keys > 0 {
			text += fmt.Sprintf("db0:keys=%d,expires=%d,avg_ttl=0\r\n", keys, expires)
		}
		sections = append(sections, text)
	}
	return verbatim(strings.Join(sections, "\r\n"))
}

// settings is what CONFIG GET shows, in its order.
func (n *Node) settings() [][2]string {
	keeps, policy := "no", EverySec
	if d := n.config.Disk; d != nil {
		keeps, policy = "yes", d.policy
	}
	return [][2]string{{"appendonly", keeps}, {"appendfsync", string(policy)}, {"save", ""}, {"databases", "1"}, {"maxmemory", "0"}}
}

func config(n *Node, _ *Session, a []string) any {
	if !strings.EqualFold(a[1], "GET") {
		return unknownSubcommand(a)
	}
	if len(a) < 3 {
		return wrongNumber("config|get")
	}
	out := pairs{}
	for _, s := range n.settings() {
		for _, pattern := range a[2:] {
			if match, err := path.Match(strings.ToLower(pattern), s[0]); err == nil && match {
				out = append(out, s[0], s[1])
				break
			}
		}
	}
	return out
}
