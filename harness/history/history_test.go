package history

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func record(t testing.TB, events ...Event) []byte {
	t.Helper()
	var b bytes.Buffer
	r := NewRecorder(&b)
	for _, e := range events {
		r.Record(e)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var whole = []Event{
	{Process: Harness, Type: Begin, Op: OpRun, Params: &Params{Schema: Schema, Scenario: "s", Nodes: []string{"n1"}, TTL: 10}},
	{T: 5, Process: "c1", Type: Invoke, Op: OpAcquire, Key: "lock-1", Session: "c1/1"},
	{T: 9, Process: "c1", Type: OK, Op: OpAcquire, Key: "lock-1", Session: "c1/1", Token: "\u2028\"\n", ValidUntil: 77},
	{T: 10, Process: Harness, Type: End, Op: OpRun},
}

func TestReadGivesBackWhatWasRecorded(t *testing.T) {
	h, err := Read(bytes.NewReader(record(t, whole...)))
	if err != nil {
		t.Fatal(err)
	}
	want := append([]Event{}, whole...)
	for i := range want {
		want[i].N = int64(i + 1)
	}
	if !reflect.DeepEqual(h.Events, want) || h.Cut != "" || h.Params.Scenario != "s" {
		t.Errorf("got %+v (cut %q), want %+v", h.Events, h.Cut, want)
	}
}

func TestReadSortsByTrueTimeThenNumber(t *testing.T) {
	late := Event{T: 7, Process: "c2", Type: Invoke, Op: OpAcquire}
	h, err := Read(bytes.NewReader(record(t, whole[0], whole[2], late, whole[1], whole[3])))
	if err != nil {
		t.Fatal(err)
	}
	var order []int64
	for _, e := range h.Events {
		order = append(order, e.N)
	}
	if got := fmt.Sprint(order); got != "[1 4 3 2 5]" {
		t.Errorf("order %s", got)
	}
}

func TestReadTellsWhereARecordIsCut(t *testing.T) {
	text := record(t, whole...)
	lines := bytes.SplitAfter(text, []byte("\n"))
	for name, c := range map[string]struct {
		text []byte
		cut  string
		n    int
	}{
		"in the middle of a line": {text[:len(text)-10], "line 4 is cut in its middle", 3},
		"between lines":           {bytes.Join(lines[:2], nil), "it ends after event 2 without the end of the run", 2},
	} {
		h, err := Read(bytes.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if h.Cut != c.cut || len(h.Events) != c.n {
			t.Errorf("%s: cut %q after %d events, want %q after %d", name, h.Cut, len(h.Events), c.cut, c.n)
		}
	}
}

func TestReadRefusesWhatNoRecorderWrote(t *testing.T) {
	text := string(record(t, whole...))
	first, _, _ := strings.Cut(text, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "empty"},
		"another file":   {"hello\n", "line 1: not an event"},
		"no params":      {`{"n":1,"t":0,"process":"c1","type":"ok","op":"read"}` + "\n", "no history of lockpick"},
		"newer schema":   {strings.Replace(text, `"schema":1`, `"schema":9`, 1), "schema 9"},
		"bad line":       {first + "\nnonsense\n" + text, "line 2"},
		"unknown field":  {first + "\n" + `{"n":2,"t":0,"process":"c1","type":"ok","op":"read","colour":1}` + "\n", "colour"},
		"cut first line": {first[:20], "line 1"},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

func TestRecorderKeepsItsFirstError(t *testing.T) {
	r := NewRecorder(broken{})
	r.Record(whole[1])
	r.Record(whole[2])
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "event 1") {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, fmt.Errorf("disk is full") }

func FuzzRead(f *testing.F) {
	f.Add(record(f, whole...))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Read(bytes.NewReader(b))
		if err == nil && len(h.Events) == 0 {
			t.Error("no events and no error")
		}
	})
}
