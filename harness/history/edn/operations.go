package edn

import (
	"fmt"
	"io"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Operations reads the calls and returns of a history as they stand in it, in the
// order of calls. Their events are numbered as in Read and have no session.
func Operations(r io.Reader) (ops []facts.Operation, notes []string, err error) {
	t := newTranslation()
	t.plain = true
	if err := t.read(r); err != nil {
		return nil, nil, err
	}
	t.rise()
	ops, err = paired(t.events)
	return ops, t.notes(), err
}

// OperationsFile reads those of the history in a file.
func OperationsFile(path string) (ops []facts.Operation, notes []string, err error) {
	return fromFile(path, Operations)
}

// paired is operations by their events in the order of time. That each return has
// its call the translation has seen, in the order of the file.
func paired(events []history.Event) ([]facts.Operation, error) {
	last := map[string]int64{}
	for _, e := range events {
		if e.N < last[e.Process] {
			return nil, fmt.Errorf("time runs backwards in %s: its operation %d is stamped after its operation %d", e.Process, e.N, last[e.Process])
		}
		last[e.Process] = e.N
	}
	var ops []facts.Operation
	open := map[string]int{} // a process's operation that has not returned
	for i := range events {
		switch e := &events[i]; {
		case e.Op == history.OpClient:
		case e.Type == history.Invoke:
			open[e.Process] = len(ops)
			ops = append(ops, facts.Operation{Call: e})
		default:
			ops[open[e.Process]].Return = e
		}
	}
	return ops, nil
}
