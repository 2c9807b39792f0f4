package edn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker/mutex"
	"lockpick/harness/history"
)

func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		`nil true -1.5e3 12N a/b`:                   `nil true -1.5e3 12N a/b`,
		`:a :b/c, :d`:                               `:a :b/c :d`,
		`"a \"b\" \n\t\\ \d" "é"`:                   "a \"b\" \n\t\\ \\d é",
		`\a \newline \( \;`:                         `a newline ( ;`,
		`(1 (2)) [] {:a {} "b" #{1 2}}`:             `[1 [2]] [] {:a {} b #{1 2}}`,
		"1 ; ] a comment\n2 ; another":              `1 2`,
		`#_1 2 [#_ #_ 3 4 5 #_{:a 1}] #_#x 6`:       `2 [5]`,
		`#inst "2026" #a.b.Op{:x 1} #:n{:y #z 2}`:   `2026 {:x 1} {:y 2}`,
		`##NaN ##-Inf #"a\d" #object[a.B 0x1f "x"]`: `##NaN ##-Inf a\d [a.B 0x1f x]`,
		``: ``,
	} {
		got, err := parseAll(text)
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
}

// parseAll parses a text and formats its forms.
func parseAll(s string) (_ string, err error) {
	defer recoverFailure(&err)
	r := newReader(strings.NewReader(s))
	var all []string
	for {
		c, more := r.firstByte(0)
		if !more {
			return strings.Join(all, " "), nil
		}
		f := r.readForm(c, 0)
		all = append(all, f.String())
	}
}

func TestInvalidFormsAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"\n[1":                         "line 2: the file ends inside",
		`"a`:                           "the file ends inside",
		`\`:                            "the file ends inside",
		`#`:                            "the file ends inside",
		`#_`:                           "the file ends inside",
		`#x`:                           "the file ends inside",
		"{:a 1\n :b}":                  "line 1: a map has a key without a value",
		"[1}":                          "line 1: unexpected '}' at the beginning of a form",
		"]":                            "unexpected ']' at the beginning of a form",
		"^{:a 1} b":                    "unexpected '^' at the beginning of a form",
		"# a":                          "# is not followed by a tag",
		": a":                          "a colon is not followed by a keyword",
		"\"\xff\"":                     "not valid UTF-8",
		"a\xffb":                       "not valid UTF-8",
		strings.Repeat("[", 200):       "forms are nested more than 100 deep",
		strings.Repeat("#_", 1<<20):    "forms are nested more than 100 deep",
		strings.Repeat("#a ", 1<<20):   "forms are nested more than 100 deep",
		strings.Repeat("a", maxForm+1): "a form is longer than",
	} {
		if got, err := parseAll(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %q, %v, want an error with %q", text, got, err, want)
		}
	}
}

// listEvents lists events in the form "4@9 p0 ok acquire p0/1", without the beginning and end of
// the run.
func listEvents(h *history.History) string {
	var b strings.Builder
	for _, e := range h.Events[1 : len(h.Events)-1] {
		fmt.Fprintf(&b, "%d@%d %s %s %s %s%s\n", e.N, e.T, e.Process, e.Type, e.Op, e.Session, strings.TrimPrefix(e.Key, onlyLock))
	}
	return b.String()
}

var translations = []struct{ name, text, want, note string }{
	{"a release belongs to the granted acquire", `
{:type :invoke, :f :acquire, :process 0, :time 1}
{:type :ok,     :f :acquire, :process 0, :time 2}
{:type :invoke, :f :acquire, :process 0, :time 3}
{:type :fail,   :f :acquire, :process 0, :time 4, :error :already-held}
{:type :invoke, :f :release, :process 0, :time 5}
{:type :ok,     :f :release, :process 0, :time 6}
{:type :invoke, :f :release, :process 0, :time 7}
{:type :fail,   :f :release, :process 0, :time 8, :error :not-held}`, `
0@1 p0 begin client
1@1 p0 invoke acquire p0/1
2@2 p0 ok acquire p0/1
3@3 p0 invoke acquire p0/2
4@4 p0 fail acquire p0/2
5@5 p0 invoke release p0/1
6@6 p0 ok release p0/1
`, "skipped releases by processes that did not hold the lock: 1"},
	{"a failed release means not held only if its error says so", `
#jepsen.history.Op{:type :invoke, :f :acquire, :process 0, :time 1}
{:type :ok,     :f :acquire, :process 0, :time 2}
{:type :invoke, :f :release, :process 0, :time 3}
{:type :fail,   :f :release, :process 0, :time 4, :error [:refused "x"]}
{:type :invoke, :f :release, :process 0, :time 5}
{:type :fail,   :f :release, :process 0, :time 6, :error [:not-held "x"]}`, `
0@1 p0 begin client
1@1 p0 invoke acquire p0/1
2@2 p0 ok acquire p0/1
3@3 p0 invoke release p0/1
4@4 p0 info release p0/1
5@5 p0 invoke release p0/1
6@6 p0 fail release p0/1
`, ""},
	{"a crashed process ends", `
{:type :invoke, :f :acquire, :process 0}
{:type :ok,     :f :acquire, :process 0}
{:type :invoke, :f :read,    :process 0}
{:type :info,   :f :read,    :process 0}
{:type :info,   :f :kill,    :process :nemesis}
{:type :invoke, :f :release, :process 0}
{:type :invoke, :f :acquire, :process 5}`, `
0@0 p0 begin client
1@0 p0 invoke acquire p0/1
2@1000 p0 ok acquire p0/1
4@3000 p0 end client
0@6000 p5 begin client
7@6000 p5 invoke acquire p5/1
`, "skipped operations other than acquire and release: 1"},
	{"operations without times are placed 1 µs apart by index", `
{:type :invoke, :f :acquire, :process 0, :index 0}
{:type :ok,     :f :acquire, :process 0, :index 1}
{:type :invoke, :f :release, :process 1, :index 5}
{:type :ok,     :f :release, :process 1, :index 6}`, `
0@0 p0 begin client
1@0 p0 invoke acquire p0/1
2@1000 p0 ok acquire p0/1
3@5000 p1 begin client
`, "1 of these releases returned ok"},
	{"several locks, operations not in chronological order", `
({:type :invoke, :f :acquire, :process 1, :key "a", :time 30},
 {:type :invoke, :f :acquire, :process 2, :key "b", :time 20}
 {:type :ok,     :f :acquire, :process 1, :time 40})`, `
0@20 p2 begin client
2@20 p2 invoke acquire p2/1b
0@30 p1 begin client
1@30 p1 invoke acquire p1/1a
3@40 p1 ok acquire p1/1a
`, "the history covers 2 locks"},
}

func TestReadTranslatesOperations(t *testing.T) {
	for _, c := range translations {
		h, notes, err := Read(strings.NewReader(c.text), 0)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := strings.ReplaceAll(listEvents(h), " \n", "\n"); got != c.want[1:] {
			t.Errorf("%s: got\n%swant%s", c.name, got, c.want)
		}
		if all := strings.Join(notes, "\n"); !strings.Contains(all, c.note) {
			t.Errorf("%s: notes %s, want %q", c.name, all, c.note)
		}
	}
}

func TestReadRejectsInvalidHistories(t *testing.T) {
	const firstLine = "{:type :invoke :f :acquire :process 0 :time 1}\n"
	for text, want := range map[string]string{
		"":                            "line 1: no operation has :f :acquire",
		"3":                           "line 1: an operation must be a map, but this is 3",
		"[] {}":                       "unexpected data after the vector",
		"{:f :acquire :process 0}":    "has no :type",
		"{:type :invoke :process 0}":  "has no :f",
		"{:type :invoke :f :acquire}": "has no :process",
		"{:type :invoke :f :acquire :process -1}":                                  ":process -1 is neither",
		"{:type :invoke :f :acquire :process \"0\" :time 1.5}":                     ":process 0 is neither",
		"{:type :invoke :f :acquire :process 0 :time 1.5}":                         ":time 1.5 is not an integer",
		"{:type :invoke :f :acquire :process 0 :time -1}":                          ":time -1 is not an integer",
		"{:type :invoke :f :acquire :process 0 :index 1e9}":                        ":index 1e9 is not an integer",
		firstLine + "{:type :ok :f :acquire :process 0}":                           "line 2: some operations have a :time",
		firstLine + "{:type :ok :f :release :process 0 :time 2}":                   "line 2: process 0 returns from :release, which it had not called",
		firstLine + "{:type :ok :f :acquire :process 1 :time 2}":                   "line 2: process 1 returns from :acquire",
		firstLine + firstLine:                                                      "line 2: process 0 calls :acquire while its :acquire of line 1 has not returned",
		firstLine + "{:type :invoke :f :acquire :process 1 :time 2 :value [:a 1]}": "line 2: some operations name their lock",
		"[" + firstLine + "{:type :ok":                                             "line 2: the file ends inside the form that begins on line 1",
	} {
		if _, _, err := Read(strings.NewReader(text), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("[{:type :invoke, :f :acquire, :process 0, :time 1, :value [:a nil]} #_x #t {:type :info, :f :acquire, :process 0, :time 2}]")
	f.Add("{:type :invoke :f :acquire :process 0}\n{:type :ok :f :acquire :process 0} ; \"\\a\n{:type :invoke :f :release :process 0}")
	f.Add("{:type :invoke :f :acquire :process 0 :time 20}\n{:type :ok :f :acquire :process 0 :time 10}\n{:type :invoke :f :release :process 1 :time 20}")
	f.Fuzz(func(t *testing.T, text string) {
		if ops, _, err := Operations(strings.NewReader(text)); err == nil {
			for _, model := range mutex.Models() {
				mutex.Check(model, ops)
			}
		}
		h, notes, err := Read(strings.NewReader(text), 0)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("the error has no line number: %v", err)
			}
			return
		}
		if len(h.Events) < 4 || h.Truncation != "" || len(notes) == 0 {
			t.Errorf("%d events, truncation %q, notes %q", len(h.Events), h.Truncation, notes)
		}
		for i, e := range h.Events {
			before := h.Events[max(i-1, 0)]
			if e.T < before.T || i > 1 && i < len(h.Events)-1 && e.T == before.T && e.N != 0 && before.N != 0 {
				t.Errorf("unexpected event %d at %d", e.N, e.T)
			}
		}
	})
}

// A lease never expires, expires at once (if its duration is unknown), or expires one TTL after the
// call of acquire.
func TestLeaseExpiryAgainstDeadlines(t *testing.T) {
	const file = `
{:type :invoke, :f :acquire, :process 0, :time 10}
{:type :ok,     :f :acquire, :process 0, :time 20}
{:type :invoke, :f :acquire, :process 1, :time 30}
{:type :ok,     :f :acquire, :process 1, :time 50}`
	for ttl, want := range map[time.Duration][]int64{NoDeadline: {0, 0}, UnknownTTL: {20, 50}, 100: {110, 130}} {
		h, _, err := Read(strings.NewReader(file), ttl)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, e := range h.Events {
			if e.Type == history.OK {
				got = append(got, e.ValidUntil)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("TTL %d: leases expire at %d, want %d", ttl, got, want)
		}
	}
}
