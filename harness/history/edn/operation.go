package edn

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// operation is one of Jepsen's maps, as far as a lock's history needs it.
type operation struct {
	line    int
	kind    history.Type
	f       string
	process string // "" if it is no client
	time    int64  // -1: not told
	index   int64  // -1: not told
	key     *form  // the lock's name, if :key says it
	value   *form
	failure *form
}

// mostTime bounds what is taken for a time: over seventy years.
const mostTime = math.MaxInt64 / 4

func parse(f form) (o operation, err error) {
	o = operation{line: f.line, key: f.get("key"), value: f.get("value"), failure: f.get("error")}
	wrong := func(format string, a ...any) (operation, error) {
		return o, fmt.Errorf("line %d: %s", f.line, fmt.Sprintf(format, a...))
	}
	if f.kind != table {
		return wrong("%s is no map, and an operation is one", shortened(&f))
	}
	typ, name, process := f.get("type"), f.get("f"), f.get("process")
	switch {
	case typ == nil || typ.kind != keyword:
		return wrong("an operation without a :type such as :invoke")
	case name.isNil():
		return wrong("an operation without :f")
	case process.isNil():
		return wrong("an operation without :process")
	}
	o.kind = history.Type(typ.text)
	switch o.kind {
	case history.Invoke, history.OK, history.Fail, history.Info:
	default:
		return wrong(":type %s is none of :invoke, :ok, :fail and :info", shortened(typ))
	}
	o.f = name.text
	if process.kind != keyword { // such as :nemesis
		n, err := strconv.ParseUint(process.text, 10, 63)
		if process.kind != symbol || err != nil {
			return wrong(":process %s is neither a number nor a keyword such as :nemesis", shortened(process))
		}
		o.process = "p" + strconv.FormatUint(n, 10)
	}
	if o.time, err = count(&f, "time", mostTime); err != nil {
		return wrong("%v", err)
	}
	if o.index, err = count(&f, "index", mostTime/apart); err != nil {
		return wrong("%v", err)
	}
	return o, nil
}

// count is a whole number from 0 on, -1 if it isn't there.
func count(f *form, name string, most int64) (int64, error) {
	v := f.get(name)
	if v.isNil() {
		return -1, nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(v.text, "N"), 10, 64)
	if v.kind != symbol || err != nil || n < 0 || n > most {
		return -1, fmt.Errorf(":%s %s is no whole number from 0 to %d", name, shortened(v), most)
	}
	return n, nil
}

// isLock reports whether the operation is one on a lock.
func (o operation) isLock() bool {
	return o.process != "" && (o.f == history.OpAcquire || o.f == history.OpRelease)
}

// shortened is a form as an error shows it.
func shortened(f *form) string {
	s := []rune(f.String())
	if len(s) > 40 {
		return string(s[:40]) + "…"
	}
	return string(s)
}

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
