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

var update = flag.Bool("update", false, "update the facts in testdata")

// Each file in testdata has a section "-- history --" and a section "-- facts --" with the expected
// description of the facts.
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
			got := describe(ReadUpToStop(h))
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

// A fault hits a client and its links, but not a client whose name has the same prefix.
func TestHits(t *testing.T) {
	for target, want := range map[string]bool{"c1": true, "c1-n1": true, "c10": false, "c10-n1": false, "n1": false, "c2-c1": false} {
		if got := (&Fault{Target: target}).Hits("c1"); got != want {
			t.Errorf("a fault on %s hits c1: %t", target, got)
		}
	}
}

// An unplanned fault ends when it begins, unless it killed the process.
func TestEndOfUnplannedFault(t *testing.T) {
	for _, c := range []struct {
		kind string
		step int
		want int64
	}{{Pause, history.UnplannedStep, 5}, {Pause, 1, Never}, {Kill, history.UnplannedStep, Never}} {
		if got := (&Fault{Kind: c.kind, Step: c.step, Begin: &history.Event{T: 5}}).To(); got != c.want {
			t.Errorf("%s of step %d lasts until %d, want %d", c.kind, c.step, got, c.want)
		}
	}
}

func TestBeginAfterFailedInjection(t *testing.T) {
	f := Read(histories.MustParse("params clients=c1 nodes=n1\n1 nemesis invoke pause node=n1 step=1\n2 nemesis fail pause node=n1 step=1\n3 nemesis begin pause node=n1 step=1\n9 harness end run"))
	if len(f.Faults) != 2 || f.Faults[0].Fail == nil || f.Faults[0].Begin != nil || f.Faults[1].Begin == nil {
		t.Errorf("%d faults, the first with begin event %v", len(f.Faults), f.Faults[0].Begin)
	}
}

// A gap overlaps a span even if they share only an endpoint.
func TestGapOverlap(t *testing.T) {
	f := Read(histories.MustParse("params clients=c1 nodes=n1\n9 n1 life gap lo=3 hi=5\n12 harness end run"))
	const s = int64(1e9)
	for _, c := range []struct {
		from, to int64
		want     bool
	}{{0, 3*s - 1, false}, {0, 3 * s, true}, {4 * s, 4 * s, true}, {5 * s, 9 * s, true}, {5*s + 1, 9 * s, false}} {
		if got := f.Lives().Gap("n1", c.from, c.to) != nil; got != c.want || f.Lives().Gap("n2", c.from, c.to) != nil {
			t.Errorf("from %d to %d: has gap: %t, want %t", c.from, c.to, got, c.want)
		}
	}
}

// A clock change is in effect at its own time.
func TestClockAtChange(t *testing.T) {
	changes := []ClockChange{{T: 3, Offset: 30, Rate: 1}, {T: 5, Offset: 50, Rate: 1}}
	for at, want := range map[int64]int64{2: 0, 3: 30, 4: 30, 5: 50, 9: 50} {
		if got := ClockAt(changes, at).Offset; got != want {
			t.Errorf("at %d: the clock is %d ahead, want %d", at, got, want)
		}
	}
}

// A release is identified by its link, its lock and the time at which it was sent.
func TestReleaseOf(t *testing.T) {
	f := Read(histories.MustParse(`params clients=c1 nodes=n1
1 c1 invoke acquire session=c1/1
1.1 c1 ok acquire session=c1/1 token=A until=9
2.1 c1-n1 ok release token=A sent=2 applied=2.05
2.2 c1-n1 ok release token=B sent=2 applied=2.05 key=lock-2
2.3 c1-n1 ok release token=C sent=2.1 applied=2.15
2.15 n1 life deleted old=A by=c1 sent=2.1
2.15 n1 life deleted old=B by=c1 sent=2 key=lock-2
2.16 n1 life deleted old=A by=c1 sent=2
2.17 n1 life deleted old=A by=c2 sent=2
9 harness end run`))
	var got []string
	for _, e := range f.lifeEvents {
		if d := f.ReleaseOf(e); d != nil {
			got = append(got, d.Token)
		} else {
			got = append(got, "-")
		}
	}
	if s := strings.Join(got, " "); s != "C B A -" {
		t.Errorf("deleted by the releases with %s, want C B A -", s)
	}
}

// Of the releases that may have deleted a key, the one applied first did so, whatever their
// recorded order.
func TestFirstDeletion(t *testing.T) {
	set := &history.Event{Node: "n1", SentAt: 1, AppliedAt: 2}
	release := func(node string, applied int64) *history.Event {
		return &history.Event{Node: node, SentAt: 2, AppliedAt: applied, Type: history.OK}
	}
	for _, order := range [][]int64{{5, 7}, {7, 5}, {2, 5}, {5, 1}} {
		a := &Attempt{Releases: []*history.Event{release("n1", order[0]), release("n2", 3), release("n1", order[1])}}
		if at, _ := a.Deletion(set); at != 5 {
			t.Errorf("releases applied at %v: deleted at %d, want 5", order, at)
		}
	}
}

// If several events show that a client is gone, the earliest counts.
func TestEarliestDeparture(t *testing.T) {
	for text, want := range map[string]int64{
		"2 nemesis invoke kill node=c1\n3 nemesis begin kill node=c1\n3 c1 end client": 2e9,
		"3 c1 end client\n4 nemesis invoke kill node=c1\n5 nemesis begin kill node=c1": 3e9,
	} {
		f := Read(histories.MustParse("params clients=c1 nodes=n1\n0 c1 begin client\n" + text + "\n9 harness end run"))
		if f.GoneAt["c1"] != want || f.firstGoneAt != want {
			t.Errorf("%s: c1 is gone at %d, want %d", text, f.GoneAt["c1"], want)
		}
	}
}

// The first notification of a loss counts, and a client's death closes a window only if the window
// ends then.
func TestEndOfBelief(t *testing.T) {
	const prefix = "params clients=c1 nodes=n1\n1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1\n"
	for text, want := range map[string]string{
		"5 c1 info lost session=c1/1\n6 c1 info lost session=c1/1\n9 harness end run": "from 2 s to 5 s (3 s) lost at 5 s",
		"9 nemesis begin kill node=c1\n9 harness end run":                             "from 2 s to 9 s (7 s) died at 9 s",
		"5 harness info stop\n7 nemesis begin kill node=c1\n9 harness end run":        "from 2 s to 5 s (3 s)",
	} {
		f := Read(histories.MustParse(prefix + text))
		got := ""
		for w := range f.Windows(f.SessionByName("c1/1")) {
			got += FromTo(w.From, w.To)
			if event, ending := f.WindowEnd(w); event != nil {
				got += " " + string(ending) + " at " + Seconds(event.T)
			}
		}
		if got != want {
			t.Errorf("%q: believed %s, want %s", text, got, want)
		}
	}
}

// describe formats facts as text. Numbers stand for events.
func describe(f *Facts) string {
	var s strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	if f.Defect != "" {
		printf("malformed: %s", f.Defect)
	}
	for x := range f.Sessions() {
		printf("session %s of %s: acquire %s", cmp.Or(x.Name(), "-"), x.Client(), pair(x.Acquire))
		for a := range x.Actions() {
			printf("  %s %s", a.Call.Op, pair(a))
		}
		for w := range f.Windows(x) {
			event, ending := f.WindowEnd(w)
			printf("  believed in %s to %s, by %s, %s by %s", Seconds(w.From), Seconds(w.To), number(w.OpenEvent), cmp.Or(ending, "still"), number(event))
		}
	}
	for _, l := range f.Locks {
		var names []string
		for x := range l.Sessions() {
			names = append(names, x.Name())
		}
		printf("lock %s: %s", l.Name, strings.Join(names, " "))
	}
	for _, client := range slices.Sorted(maps.Keys(f.GoneAt)) {
		printf("%s is gone at %s", client, Seconds(f.GoneAt[client]))
	}
	for _, x := range f.Faults {
		printf("%s %s, step %d: invoke %s, begin %s, end %s, fail %s", x.Kind, x.Target, x.Step, number(x.Invoke), number(x.Begin), number(x.End), number(x.Fail))
	}
	for _, x := range f.ClockChanges {
		printf("clock of %s at %s: %s ahead, rate %g, wrong %t, %s ahead a second later", x.Process, Seconds(x.T), Seconds(x.Offset), x.Rate, x.IsWrong(), Seconds(x.OffsetAt(x.T+1e9)))
	}
	for _, w := range f.Writes() {
		printf("write %s %s: read %s, met version %d, made %d, tokens up to %d", number(w.Event), w.Type, number(w.Read), w.VersionBefore, w.VersionAfter, w.MaxFence)
	}
	attempts := f.AttemptsByLock()
	for _, l := range slices.Sorted(maps.Keys(attempts)) {
		for _, a := range attempts[l].Attempts {
			printf("attempt of %s at %s with %s, %s to %s: sets %s, %d yes, %d no, won %t, over at %s, deletes %s",
				a.Session.Name(), l, a.Token, Seconds(a.From), Seconds(a.To), numbers(a.Sets), a.YesVotes, a.NoVotes, a.Won, Seconds(a.End), numbers(a.Releases))
		}
		for s := range f.Sessions() {
			if t, ok := attempts[l].LastExtension[s]; ok {
				printf("extended %s at %s", s.Name(), Seconds(t))
			}
		}
	}
	nodes := f.LockCommandsByNode()
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		printf("%s did %s", n, numbers(nodes[n]))
	}
	for _, part := range []struct {
		name   string
		events []*history.Event
	}{{"sent", f.SentCommands()}, {"lacks", f.UnsupportedCommands}, {"loose", f.UnmatchedEvents}} {
		if len(part.events) > 0 {
			printf("%s: %s", part.name, numbers(part.events))
		}
	}
	if f.StopEvent != nil {
		printf("stopped by %s", number(f.StopEvent))
	}
	printf("%d grants, shares %v, ends at %s", f.Grants, f.GrantsByClient, Seconds(f.End))
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

// A call that returns only because its client is stopped, at the limit or earlier, counts as
// pending.
func TestPendingAtStop(t *testing.T) {
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
		if got := f.PendingAtStop(f.SessionByName("c1/1").Acquire); got != want {
			t.Errorf("%q: pending: %t, want %t", text, got, want)
		}
	}
}

// A node has a key until it reports otherwise, even if the key would have expired by a correct
// clock.
func TestValueOfKeyAtInstant(t *testing.T) {
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
		if s := lives.IntervalAt("n1", "lock-1", int64(at*1e9)); s != nil {
			got = s.Value
		}
		if got != want {
			t.Errorf("at %g s: value %q, want %q", at, got, want)
		}
	}
	intervals := lives.Intervals("n1", "lock-1")
	if a, b := intervals[0].Lifetime(), intervals[1].Lifetime(); a != 2e9 || b != 3e9+0.0007e9 { // a TTL starts at a whole millisecond of the node's clock
		t.Errorf("the lifetimes of A and B are %s and %s", Seconds(a), Seconds(b))
	}
	if intervals[1].ExpiryEvent.Life.Expiry = 0; intervals[1].Lifetime() != Never {
		t.Error("a key without an expiry has a lifetime")
	}
}

func TestElapsedOnClock(t *testing.T) {
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
	since := f.SessionByName("c1/1").Acquire.Return
	for until, want := range map[float64]float64{2: 0, 2.5: 0.5, 4: 1.9, 5: 8, 6.5: 9.5} {
		if got := f.ElapsedOnClock(since, int64(until*1e9)); got != int64(want*1e9) {
			t.Errorf("until %g s: %s, want %g s", until, Seconds(got), want)
		}
	}
}

// A key expires when its node's clock first shows the expiry time or, if a clock change skips that
// time, at the change. It never expires before the expiry was set.
func TestKeyExpiredAt(t *testing.T) {
	for clock, want := range map[string]float64{
		"": 11,
		"3 nemesis info clock node=n1 local=1003 wall drift=-200000000":              13,
		"3 nemesis info clock node=n1 local=1008 wall":                               6,
		"3 nemesis info clock node=n1 local=1020 wall":                               3,
		"3 nemesis info clock node=n2 local=1020 wall":                               11,
		"0.5 nemesis info clock node=n1 local=1000.5 wall":                           11,
		"3 nemesis info clock node=n1 local=1020 wall\n11.001 n1 life expired old=A": 11, // the node uses another clock for expiry
	} {
		h, err := histories.Parse("params clients=c1 nodes=n1,n2 epoch=1000 ttl=10s\n1 n1 life set value=A by=c1\n" + clock + "\n20 harness end run")
		if err != nil {
			t.Fatal(err)
		}
		f := Read(h)
		if got := f.Lives().Intervals("n1", "lock-1")[0].ExpiredAt(f.ClockChangesOf("n1")); got != int64(want*1e9) {
			t.Errorf("%s: %s, want %g s", clock, Seconds(got), want)
		}
	}
}
