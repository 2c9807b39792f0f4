// Package trace writes a run for viewers of traces: Perfetto (ui.perfetto.dev) and
// chrome://tracing.
//
// It is the JSON form of Chrome's trace events, an object with traceEvents. Processes
// are the groups clients, nodes, resource and faults, threads what lies below them.
// Operations, beliefs and faults are spans (B and E), commands on the wire and entries
// of the resource's log are instants (i), the number of holders of each lock is a
// counter (C). Stamps are microseconds of true time. What had not ended with the record
// ends there, with "unfinished" among its args. Every event names the numbers of ours
// that it stands for ("event").
//
// Deliberately missing: what a run that is no history has, such as its host.
package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/reports/words"
)

// Groups are the processes of a trace, in the order in which viewers show them.
const (
	clients = iota + 1
	nodes
	resource
	faults
)

var groups = map[int]string{clients: "clients", nodes: "lock nodes", resource: "resource", faults: "faults"}

type mark struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	TS    micros         `json:"ts"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Cat   string         `json:"cat,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// micros is nanoseconds that are written as microseconds, exactly.
type micros int64

func (m micros) MarshalJSON() ([]byte, error) {
	if m < 0 {
		return []byte("0"), nil
	}
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// Write writes a run's trace. The verdict's violations are marked, where they have a
// witness.
func Write(w io.Writer, h *history.History, v checker.Verdict) error {
	b := newBuilder(h)
	b.read()
	b.believe()
	b.violations(v)
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(`{"displayTimeUnit":"ms","otherData":` + header(h) + `,"traceEvents":[`)
	for i, m := range b.all() {
		if i > 0 {
			out.WriteByte(',')
		}
		text, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("write trace: %w", err)
		}
		out.WriteByte('\n')
		out.Write(text)
	}
	out.WriteString("\n]}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

func header(h *history.History) string {
	text, err := json.Marshal(map[string]any{"scenario": clip(h.Params.Scenario), "variant": clip(h.Params.Variant), "backend": clip(h.Params.Backend),
		"seed": fmt.Sprint(h.Params.Seed), "cut": clip(h.Cut)})
	if err != nil { // it holds strings only
		panic(err)
	}
	return string(text)
}

// all is the names of the groups and threads, then all marks by thread and time, of
// which viewers want no more.
func (b *builder) all() []mark {
	var out []mark
	for pid := clients; pid <= faults; pid++ {
		out = append(out, mark{Name: "process_name", Phase: "M", PID: pid, Args: map[string]any{"name": groups[pid]}},
			mark{Name: "process_sort_index", Phase: "M", PID: pid, Args: map[string]any{"sort_index": pid}})
	}
	for _, t := range b.threads {
		out = append(out, mark{Name: "thread_name", Phase: "M", PID: t.pid, TID: t.tid, Args: map[string]any{"name": clip(t.name)}})
	}
	for _, t := range b.threads {
		out = append(out, t.marks()...)
	}
	slices.SortStableFunc(b.counts, func(x, y mark) int { return cmp.Compare(x.TS, y.TS) })
	return append(out, b.counts...)
}

// longest bounds one text, in bytes.
const longest = 1 << 10

func clip(s string) string { return words.Clip(s, longest) }
