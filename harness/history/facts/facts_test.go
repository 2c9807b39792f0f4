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

// A call that returns because its client is stopped, at the limit or before, has not returned by itself.
func TestUnreturned(t *testing.T) {
	const calls = `params clients=c1 limit=20s
0  c1 begin client
1  c1 invoke acquire session=c1/1
`
	for text, want := range map[string]bool{
		"19.9 c1 fail acquire session=c1/1": false,
		"20 c1 fail acquire session=c1/1":   true,
		"20.1 c1 info acquire session=c1/1": true,
		"":                                  true,
		"10 harness info stop cause=too many events\n10 c1 fail acquire session=c1/1":            true,
		"10 harness info stop cause=too many events\n21 c1 fail acquire session=c1/1":            true,
		"9 c1 fail acquire session=c1/1\n10 harness info stop cause=too many events":             false,
		"9 c1 fail acquire session=c1/1\n10 c1 invoke acquire session=c1/2\n20 harness info run": false,
	} {
		h, err := histories.Parse(calls + text)
		if err != nil {
			t.Fatal(err)
		}
		f := Read(h)
		if got := f.Unreturned(f.Named("c1/1").Acquire); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A node has a key until it says otherwise, even if its time should have been over by a right clock.
func TestWhatANodeHasAtAnInstant(t *testing.T) {
	h, err := histories.Parse(`params clients=c1 nodes=n1 ttl=2s epoch=1000
1    n1 life set value=A by=c1
9    n1 life expired old=A local=1003
9.5  n1 life set value=B by=c1 ttl=20
10.0007 n1 life expiry value=B by=c1 ttl=3`)
	if err != nil {
		t.Fatal(err)
	}
	lives := Read(h).Lives()
	for at, want := range map[float64]string{0.5: "", 1: "A", 2.9: "A", 3.1: "A", 9: "A", 9.2: "", 9.5: "B", 50: "B"} {
		got := ""
		if s := lives.At("n1", "lock-1", int64(at*1e9)); s != nil {
			got = s.Value
		}
		if got != want {
			t.Errorf("at %g s: %q, want %q", at, got, want)
		}
	}
	stays := lives.Stays("n1", "lock-1")
	if a, b := stays[0].Lifetime(), stays[1].Lifetime(); a != 2e9 || b != 3e9+0.0007e9 { // which a node counts from the whole millisecond
		t.Errorf("A got %s and B %s", Seconds(a), Seconds(b))
	}
	if stays[1].Given.Life.Expires = 0; stays[1].Lifetime() != Never {
		t.Error("a key without an expiry has an end")
	}
}

// A client's clock shows what its turns let it show.
func TestWhatAClockShows(t *testing.T) {
	h, err := histories.Parse(`params clients=c1 nodes=n1 epoch=1000
0  c1 begin client
1  c1 invoke acquire session=c1/1
2  c1 ok acquire session=c1/1 until=9 local=1002 wall
3  nemesis info clock node=c1 local=1003 wall drift=-100000000
5  nemesis info clock node=c1 local=1010 wall
6  nemesis info clock node=c1 local=3000
7  harness end run`)
	if err != nil {
		t.Fatal(err)
	}
	f := Read(h)
	since := f.Named("c1/1").Acquire.Return
	for until, want := range map[float64]float64{2: 0, 2.5: 0.5, 4: 1.9, 5: 8, 6.5: 9.5} {
		if got := f.Shown(since, int64(until*1e9)); got != int64(want*1e9) {
			t.Errorf("until %g s: %s, want %g s", until, Seconds(got), want)
		}
	}
}
