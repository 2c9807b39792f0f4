package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
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

var completeRun = []Event{
	{Process: Harness, Type: Begin, Op: OpRun, Params: &Params{Schema: Schema, Scenario: "s", Nodes: []string{"n1"}, TTL: 10}},
	{T: 5, Process: "c1", Type: Invoke, Op: OpAcquire, Key: "lock-1", Session: "c1/1"},
	{T: 9, Process: "c1", Type: OK, Op: OpAcquire, Key: "lock-1", Session: "c1/1", Token: "\u2028\"\n", ValidUntil: 77},
	{T: 10, Process: Harness, Type: End, Op: OpRun},
}

func TestReadReturnsRecordedEvents(t *testing.T) {
	h, err := Read(bytes.NewReader(record(t, completeRun...)))
	if err != nil {
		t.Fatal(err)
	}
	want := append([]Event{}, completeRun...)
	for i := range want {
		want[i].N = int64(i + 1)
	}
	if !reflect.DeepEqual(h.Events, want) || h.Truncation != "" || h.Params.Scenario != "s" {
		t.Errorf("got %+v (cut %q), want %+v", h.Events, h.Truncation, want)
	}
}

func TestReadSortsByTrueTimeThenNumber(t *testing.T) {
	lateEvent := Event{T: 7, Process: "c2", Type: Invoke, Op: OpAcquire}
	h, err := Read(bytes.NewReader(record(t, completeRun[0], completeRun[2], lateEvent, completeRun[1], completeRun[3])))
	if err != nil {
		t.Fatal(err)
	}
	var order []int64
	for _, e := range h.Events {
		order = append(order, e.N)
	}
	if got := fmt.Sprint(order); got != "[1 4 3 2 5]" {
		t.Errorf("the order of events is %s", got)
	}
}

func TestReadReportsTruncation(t *testing.T) {
	text := record(t, completeRun...)
	lines := bytes.SplitAfter(text, []byte("\n"))
	for name, c := range map[string]struct {
		text []byte
		cut  string
		n    int
	}{
		"in the middle of a line": {text[:len(text)-10], "line 4 is incomplete", 3},
		"between lines":           {bytes.Join(lines[:2], nil), "it ends after event 2, before the end of the run", 2},
	} {
		h, err := Read(bytes.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if h.Truncation != c.cut || len(h.Events) != c.n {
			t.Errorf("%s: truncation %q after %d events, want %q after %d", name, h.Truncation, len(h.Events), c.cut, c.n)
		}
	}
}

func TestReadRejectsOtherFiles(t *testing.T) {
	text := string(record(t, completeRun...))
	first, _, _ := strings.Cut(text, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "empty"},
		"another file":   {"hello\n", "line 1: not an event"},
		"no params":      {`{"n":1,"t":0,"process":"c1","type":"ok","op":"read"}` + "\n", "not a lockpick history"},
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
	r := NewRecorder(brokenWriter{})
	r.Record(completeRun[1])
	r.Record(completeRun[2])
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "event 1") {
		t.Errorf("got %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("disk is full") }

// hostileEvent returns an event with unusual values in all fields.
func hostileEvent(text string, n int64) Event {
	var e Event
	fillFields(reflect.ValueOf(&e).Elem(), text, n)
	return e
}

func fillFields(v reflect.Value, text string, n int64) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(text)
		case reflect.Int64, reflect.Int:
			f.SetInt(n)
		case reflect.Bool:
			f.SetBool(n%2 == 0)
		case reflect.Pointer:
			if n%2 != 0 {
				continue
			}
			if f.Type() == reflect.TypeFor[*Life]() {
				f.Set(reflect.New(f.Type().Elem()))
				fillFields(f.Elem(), text, n+1)
			} else {
				f.Set(reflect.ValueOf(&Params{Schema: Schema, Scenario: text, Nodes: []string{text}, Clients: []string{}, Steps: []PlannedStep{}, Rate: float64(n) / 7}))
			}
		default:
			panic("a field of kind " + f.Kind().String())
		}
	}
}

func TestLinesMatchJSON(t *testing.T) {
	var allRunes strings.Builder
	for c := range rune(0x250) {
		allRunes.WriteRune(c)
	}
	for _, text := range []string{"", "plain", "\"\\/<>&\x00\x1f\x7f\r\n\t\b\f", "\u2028\u2029\ufffd\U0001f512", "\xff\xc3(", allRunes.String()} {
		for _, n := range []int64{0, 1, -1, 1 << 62, -1 << 63, 1<<63 - 1} {
			checkLine(t, hostileEvent(text, n))
		}
	}
	// Test each field separately, so that none hides an error in another.
	for i := range reflect.TypeFor[Event]().NumField() {
		e, fullEvent := Event{}, hostileEvent("x", 2)
		reflect.ValueOf(&e).Elem().Field(i).Set(reflect.ValueOf(fullEvent).Field(i))
		checkLine(t, e)
	}
}

func checkLine(t *testing.T, e Event) {
	t.Helper()
	want, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := appendLine(nil, &e)
	if string(got) != string(want)+"\n" || err != nil {
		t.Errorf("got  %s%v\nwant %s", got, err, want)
	}
}

// Watchers get the same events as readers, even if JSON can't represent a value.
func TestWatchersSeeWhatReadersRead(t *testing.T) {
	var b bytes.Buffer
	var watched []Event
	r := NewRecorder(&b)
	r.Watch(func(e Event) { watched = append(watched, e) })
	for _, e := range append(completeRun[:3:3], hostileEvent("\xff\xfe \xc3(\u2028<", 77), hostileEvent("\xff", 4), completeRun[1], completeRun[3]) {
		r.Record(e)
	}
	written := b.String()
	fromText, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	fromWatched, err := New(watched)
	if err != nil || !reflect.DeepEqual(fromWatched, fromText) {
		t.Errorf("watched %+v, %v\nread    %+v", fromWatched, err, fromText)
	}
	slices.Reverse(watched)
	if lines, err := Lines(watched); string(lines) != written || err != nil {
		t.Errorf("the watched events encode as %s%v\nwritten: %s", lines, err, written)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder(io.Discard)
	e := Event{T: 123456789012, Process: "c1-n1", Type: OK, Op: OpRelease, Key: "lock-1", Token: strings.Repeat("0123", 10), Node: "n1",
		SentAt: 123456000000, AppliedAt: 123456700000, AnsweredAt: 123456789012}
	for b.Loop() {
		r.Record(e)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a<b\xff\u2028", int64(-5))
	f.Fuzz(func(t *testing.T, text string, n int64) { checkLine(t, hostileEvent(text, n)) })
}

func TestEventsBeforeBeginAreDropped(t *testing.T) {
	var got []Event
	r := NewRecorder(nil)
	r.Watch(func(e Event) { got = append(got, e) })
	r.DropUntilBegin()
	r.Record(Event{Process: "n1", Type: Info, Op: OpLife})
	r.Record(Event{Process: "c1", Type: Begin, Op: "client"})
	r.Record(Event{Process: Harness, Type: Begin, Op: OpRun})
	r.Record(Event{T: 1, Process: "n1", Type: Info, Op: OpLife})
	if len(got) != 2 || got[0].N != 1 || got[0].Op != OpRun || got[1].N != 2 || got[1].Op != OpLife {
		t.Errorf("recorded %v", got)
	}
}
