package histories

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/history"
)

// Parse reads a history in a short handwritten format, with one event per line:
//
//	params clients=c1,c2 nodes=n1,n2,n3 ttl=10s …
//	ttl c2 2s
//	step 1 pause c1 after c1 read
//	cut it ends here
//	SECONDS PROCESS TYPE OP [field=value …] [cause=text to the end of the line]
//
//	SECONDS NODE life WHAT [value=… old=… by=CLIENT ttl=SECONDS local=SECONDS …]
//
// PROCESS may name several links, as in c1-n1,n2, and NODE may name several nodes. Missing fields
// of a command get defaults: the command was sent 2 ms and applied 1 ms before it was answered.
// Unless a life fact says otherwise, a node's clock is correct, and a key that it sets or extends
// has its client's TTL. If a history contains any life facts, it must contain all of them. The key is
// lock-1 and the resource is r1.
//
// Errors include the line number.
func Parse(text string) (*history.History, error) {
	h := &history.History{Params: history.Params{Resource: "r1"}}
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if err := parseLine(h, f); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
	numberFacts(h)
	history.Sort(h.Events)
	return h, nil
}

func parseLine(h *history.History, f []string) error {
	switch f[0] {
	case "params":
		for _, kv := range f[1:] {
			name, value, _ := strings.Cut(kv, "=")
			if err := setField(name, value, &h.Params); err != nil {
				return err
			}
		}
		return nil
	case "ttl": // a client's own TTL, with the lock's share of drift
		ttl, err := time.ParseDuration(f[2])
		if err == nil && h.Params.TTL > 0 {
			drift := time.Duration(float64(h.Params.Drift) * float64(ttl) / float64(h.Params.TTL))
			h.Params.TTLs = append(h.Params.TTLs, history.ClientTTL{Client: f[1], TTL: ttl, Drift: drift})
		}
		return err
	case "step":
		n, err := strconv.Atoi(f[1])
		h.Params.Steps = append(h.Params.Steps, history.PlannedStep{
			Step: n, Fault: f[2], Targets: strings.Split(f[3], ","), Trigger: strings.Join(f[4:], " "),
		})
		return err
	case "cut":
		h.Truncation = strings.Join(f[1:], " ")
		return nil
	}
	if len(f) < 4 {
		return fmt.Errorf("got %q, want SECONDS PROCESS TYPE OP", f)
	}
	at, err := parseSeconds(f[0])
	if err != nil {
		return err
	}
	processes := strings.Split(f[1], ",")
	for i, p := range processes {
		if client, _, isLink := strings.Cut(processes[0], "-"); isLink && i > 0 {
			p = client + "-" + p
		}
		e := history.Event{T: at + int64(i)*1000, Process: p, Type: history.Type(f[2]), Op: f[3]}
		if f[2] == history.OpLife {
			e.Type, e.Op, e.Life = history.Info, history.OpLife, &history.Life{Kind: history.Change(f[3])}
			h.Params.ReportsKeys = true
		}
		if err := setFields(&e, f[4:], h.Params); err != nil {
			return err
		}
		h.Events = append(h.Events, e)
	}
	return nil
}

func setFields(e *history.Event, fields []string, p history.Params) error {
	if client, node, isLink := strings.Cut(e.Process, "-"); isLink {
		const ms = int64(time.Millisecond)
		e.Node, e.SentAt, e.AppliedAt, e.AnsweredAt = node, e.T-2*ms, e.T-ms, e.T
		if e.Op == history.OpSet {
			e.TTL = int64(p.TTLOf(client).TTL)
		}
	}
	if e.Process != history.Nemesis && e.Process != history.Harness && e.Op != history.OpClient {
		e.Key = "lock-1"
	}
	targets := []any{e}
	if e.Life != nil {
		targets = []any{e.Life, e}
		e.Local, e.TTL = p.Epoch+e.T, unknownTTL
	}
	for i, kv := range fields {
		name, value, _ := strings.Cut(kv, "=")
		if name == "cause" {
			e.Cause = strings.Join(append([]string{value}, fields[i+1:]...), " ")
			break
		}
		if err := setField(name, value, targets...); err != nil {
			return err
		}
	}
	if e.Life != nil {
		if e.TTL == unknownTTL {
			e.TTL = int64(p.TTLOf(e.Life.Sender).TTL)
		}
		completeLife(e)
	}
	return nil
}

// unknownTTL is the TTL of a life fact that doesn't contain one.
const unknownTTL = -1

// setField parses a value into the field with the given name, in JSON or Go, in the first struct with such a
// field. An int64 is an instant or a duration in seconds, unless it is one of the counts below.
func setField(name, value string, structs ...any) (err error) {
	if name == "until" {
		name = "validUntil"
	}
	for _, s := range structs {
		v := reflect.ValueOf(s).Elem()
		i := slices.IndexFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool {
			inFile, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return inFile == name || strings.EqualFold(f.Name, name)
		})
		if i < 0 {
			continue
		}
		f := v.Field(i)
		switch ptr := f.Addr().Interface().(type) {
		case *string:
			*ptr = value
		case *[]string:
			*ptr = strings.Split(value, ",")
		case *bool:
			*ptr = true
		case *int:
			*ptr, err = strconv.Atoi(value)
		case *float64:
			*ptr, err = strconv.ParseFloat(value, 64)
		case *time.Duration:
			*ptr, err = time.ParseDuration(value)
		case *int64:
			if *ptr, err = parseSeconds(value); slices.Contains([]string{"version", "fence", "n", "drift"}, name) {
				*ptr, err = strconv.ParseInt(value, 10, 64)
			}
		default:
			err = fmt.Errorf("field %q is not supported", name)
		}
		return err
	}
	return fmt.Errorf("no field %q", name)
}

func parseSeconds(seconds string) (int64, error) {
	d, err := time.ParseDuration(seconds + "s")
	return int64(d), err
}

// completeLife fills in missing fields of a life fact.
func completeLife(e *history.Event) {
	l := e.Life
	if l.Sender != "" && l.Sender != history.Harness && !strings.Contains(l.Sender, ":") {
		l.Sender += "-" + e.Process
	}
	switch l.Kind {
	case history.KeySet, history.KeyChanged, history.KeyExpiry, history.KeyAppeared, history.KeyKept, history.KeyReverted:
		l.Expiry = e.Local + e.TTL
	}
	e.TTL = 0
}

// numberFacts numbers each node's facts in chronological order.
func numberFacts(h *history.History) {
	var facts []*history.Event
	for i := range h.Events {
		if h.Events[i].Life != nil {
			facts = append(facts, &h.Events[i])
		}
	}
	slices.SortStableFunc(facts, func(a, b *history.Event) int { return cmp.Compare(a.T, b.T) })
	seq := map[string]int64{}
	for _, e := range facts {
		seq[e.Process]++
		e.Life.Seq = seq[e.Process]
	}
}
