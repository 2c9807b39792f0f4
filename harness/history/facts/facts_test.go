package facts

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/harness/history"
	"lockpick/internal/histories"
)

var update = flag.Bool("update", false, "write the facts in testdata anew")

// TestStories reads the histories in testdata and tells what they come to: a file is
// -- history -- and -- facts --.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatal(len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil || len(a.Files) != 2 {
				t.Fatal(err)
			}
			h, err := histories.Parse(string(a.Files[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			got := tell(ReadUpToStop(h))
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(a.Files[1].Data) {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// tell writes facts as text, events by their numbers.
func tell(f *Facts) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	if f.Malformed != "" {
		line("malformed: %s", f.Malformed)
	}
	for x := range f.Sessions() {
		line("session %s of %s: acquire %s", cmp.Or(x.Name(), "-"), x.Client(), pair(x.Acquire))
		for a := range x.Actions() {
			line("  %s %s", a.Call.Op, pair(a))
		}
		for w := range f.Windows(x) {
			by, how := f.Closing(w)
			line("  believed in %s to %s, by %s, %s by %s", Seconds(w.From), Seconds(w.To), number(w.Opens), cmp.Or(how, "still"), number(by))
		}
	}
	for _, l := range f.Locks {
		var names []string
		for x := range l.Sessions() {
			names = append(names, x.Name())
		}
		line("lock %s: %s", l.Name, strings.Join(names, " "))
	}
	for _, client := range slices.Sorted(maps.Keys(f.Gone)) {
		line("%s is gone at %s", client, Seconds(f.Gone[client]))
	}
	for _, x := range f.Faults {
		line("%s %s, step %d: invoke %s, begin %s, end %s, fail %s", x.Kind, x.Target, x.Step, number(x.Invoke), number(x.Begin), number(x.End), number(x.Fail))
	}
	for _, x := range f.Turns {
		line("clock of %s at %s: %s ahead, rate %g, wrong %t, %s ahead a second later", x.Process, Seconds(x.T), Seconds(x.Offset), x.Rate, x.Wrong(), Seconds(x.Ahead(x.T+1e9)))
	}
	for _, w := range f.Writes() {
		line("write %s %s: read %s, met version %d, made %d, tokens up to %d", number(w.Event), w.Type, number(w.Read), w.Met, w.Made, w.Seen)
	}
	wires := f.Wires()
	for _, l := range slices.Sorted(maps.Keys(wires)) {
		for _, a := range wires[l].Attempts {
			line("attempt of %s at %s with %s, %s to %s: sets %s, %d yes, %d no, won %t, over at %s, deletes %s",
				a.Session.Name(), l, a.Token, Seconds(a.From), Seconds(a.To), numbers(a.Sets), a.Yes, a.No, a.Won, Seconds(a.Over), numbers(a.Deletes))
		}
		for s := range f.Sessions() {
			if t, ok := wires[l].Extended[s]; ok {
				line("extended %s at %s", s.Name(), Seconds(t))
			}
		}
	}
	nodes := f.ByNode()
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		line("%s did %s", n, numbers(nodes[n]))
	}
	for _, part := range []struct {
		name   string
		events []*history.Event
	}{{"sent", f.Sent()}, {"lacks", f.Lacks}, {"loose", f.Loose}} {
		if len(part.events) > 0 {
			line("%s: %s", part.name, numbers(part.events))
		}
	}
	if f.Stop != nil {
		line("stopped by %s", number(f.Stop))
	}
	line("%d grants, shares %v, ends at %s", f.Grants, f.Shares, Seconds(f.End))
	return s.String()
}

func pair(o Operation) string {
	return fmt.Sprintf("%s-%s %s", number(o.Call), number(o.Return), o.Outcome())
}

func numbers(events []*history.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, number(e))
	}
	return strings.Join(all, " ")
}

func number(e *history.Event) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprint(e.N)
}
