package sequence

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/history"
)

// parseShortForm parses a history in the short form used in testdata. A line is one of
//
//	run NAME key=value…                                 the run event
//	SECONDS PROCESS TYPE OP key=value…                  one event
//	wire CLIENT NODES TYPE OP SENT APPLIED ANSWERED …   one event for each node in NODES, such as "n1..n3,n5"
//
// Events are numbered in file order. "-" means no timestamp. The default key is lock-1. "_" in a value
// stands for a space, and HOSTILE, LONG and WIDE stand for malicious text.
func parseShortForm(text string) (*history.History, error) {
	h := &history.History{}
	text = strings.NewReplacer("HOSTILE", "c1\x1b[2J\"\r\u202e", "LONG", strings.Repeat("lock", 60), "WIDE", "日本\u0301").Replace(text)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Split(line, " ")
		if line == "" || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := parseLine(h, words); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	history.Sort(h.Events)
	return h, nil
}

func parseLine(h *history.History, w []string) error {
	switch {
	case w[0] == "run" && len(w) > 1:
		p := &h.Params
		*p = history.Params{Schema: history.Schema, Scenario: w[1], Backend: "sim", Seed: 1, Resource: "r1",
			TTL: 10 * time.Second, NodeTimeout: 50 * time.Millisecond, Fence: "none"}
		for _, kv := range w[2:] {
			if err := setParam(p, kv); err != nil {
				return err
			}
		}
		p.Quorum = len(p.Nodes)/2 + 1
		addEvent(h, history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: p})
	case w[0] == "wire" && len(w) > 7:
		for _, n := range expandNames(w[2]) {
			e := history.Event{Process: w[1] + "-" + n, Node: n, Type: history.Type(w[3]), Op: w[4], Key: "lock-1",
				SentAt: parseSeconds(w[5]), AppliedAt: parseSeconds(w[6]), AnsweredAt: parseSeconds(w[7])}
			e.T = max(e.SentAt, e.AppliedAt, e.AnsweredAt)
			if err := setFields(&e, w[8:]); err != nil {
				return err
			}
			addEvent(h, e)
		}
	case len(w) > 3:
		e := history.Event{T: parseSeconds(w[0]), Process: w[1], Type: history.Type(w[2]), Op: w[3]}
		if e.Process != history.Nemesis {
			e.Key = "lock-1"
		}
		if err := setFields(&e, w[4:]); err != nil {
			return err
		}
		addEvent(h, e)
	default:
		return fmt.Errorf("invalid line %q", strings.Join(w, " "))
	}
	return nil
}

func addEvent(h *history.History, e history.Event) {
	e.N = int64(len(h.Events) + 1)
	h.Events = append(h.Events, e)
}

func setParam(p *history.Params, kv string) error {
	k, v, _ := strings.Cut(kv, "=")
	switch k {
	case "variant":
		p.Variant = v
	case "nodes":
		p.Nodes = expandNames(v)
	case "clients":
		p.Clients = expandNames(v)
	case "fence":
		p.Fence = v
	default:
		return fmt.Errorf("unknown parameter %q", k)
	}
	return nil
}

func setFields(e *history.Event, kvs []string) error {
	for _, kv := range kvs {
		k, v, _ := strings.Cut(kv, "=")
		v = strings.ReplaceAll(v, "_", " ")
		n, _ := strconv.ParseInt(v, 10, 64)
		switch k {
		case "key":
			e.Key = v
		case "s":
			e.Session = v
		case "token":
			e.Token = v
		case "fence":
			e.Fence = n
		case "until":
			e.ValidUntil = parseSeconds(v)
		case "node":
			e.Node = v
		case "value":
			e.Value = v
		case "version":
			e.Version = n
		case "ttl":
			e.TTL = parseSeconds(v)
		case "applied":
			e.AppliedAt = parseSeconds(v)
		case "step":
			e.Step = int(n)
		case "cause":
			e.Cause = v
		default:
			return fmt.Errorf("unknown field %q", k)
		}
	}
	return nil
}

// parseSeconds parses a number of seconds and returns nanoseconds. It returns 0 for invalid numbers.
func parseSeconds(s string) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return int64(f*1e9 + 0.5)
}

// expandNames expands a list such as "n1..n3,n5".
func expandNames(s string) []string {
	var out []string
	for _, part := range strings.Split(s, ",") {
		a, b, isRange := strings.Cut(part, "..")
		if !isRange {
			out = append(out, part)
			continue
		}
		prefix, from, _ := splitNumber(a)
		_, to, _ := splitNumber(b)
		for n := from; n <= to; n++ {
			out = append(out, prefix+strconv.Itoa(n))
		}
	}
	return out
}
