package sentinel_test

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/checker/histories"
	"lockpick/checker/sentinel"
	"lockpick/checker/windows"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/history/story"
)

// firstAlarm is how many events a sentinel had seen when it alarmed; 0: it did not.
func firstAlarm(h *history.History) (int, sentinel.Alarm) {
	s := sentinel.New(h.Params)
	for i := range h.Events {
		if a, ok := s.Event(&h.Events[i]); ok {
			return i + 1, a
		}
	}
	return 0, sentinel.Alarm{}
}

// firstViolated is the shortest beginning of a history that violates mutual
// exclusion as Check has it, in events; 0: none.
func firstViolated(h *history.History) int {
	for n := 1; n <= len(h.Events); n++ {
		if violates(&history.History{Params: h.Params, Events: h.Events[:n], Cut: "here"}) {
			return n
		}
	}
	return 0
}

// violates reports whether two believed for some time, and not just at the last instant.
func violates(h *history.History) bool {
	o := windows.New(facts.Read(h)).Overlaps()
	return o.From < o.To
}

// A sentinel alarms at the very event by which Check finds a violation.
func TestSentinelAlarmsWhereCheckViolates(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	alarms, shown := 0, 0
	for i := range 20_000 {
		h := histories.Random(rnd)
		got, a := firstAlarm(h)
		if want := firstViolated(h); got != want {
			t.Fatalf("history %d: alarm at event %d, violated at %d:\n%s", i, got, want, histories.Lines(h))
		}
		if got == 0 {
			continue
		}
		alarms++
		if a.N != h.Events[got-1].N {
			t.Fatalf("history %d: the alarm names event %d, and came at %d", i, a.N, h.Events[got-1].N)
		}
		v := checker.Check(&history.History{Params: h.Params, Events: h.Events[:got], Cut: "here"}, checker.MutualExclusion)
		w := v.Results[0].Witness
		if v.Results[0].Outcome != checker.Violated || w == nil || w.Key != a.Key {
			t.Fatalf("history %d: Check says %+v of what the alarm %+v saw:\n%s", i, v.Results[0], a, histories.Lines(h))
		}
		if w.From == a.From && slices.Contains(w.Sessions, a.Sessions[0]) && slices.Contains(w.Sessions, a.Sessions[1]) {
			shown++
		}
	}
	if alarms < 2000 || alarms > 18_000 {
		t.Errorf("%d of 20000 histories alarm: the comparison is one-sided", alarms)
	}
	if shown < alarms*9/10 { // of several overlaps Check shows the longest
		t.Errorf("of %d alarms %d name what Check shows", alarms, shown)
	}
}

// As on a real backend, where each client's events arrive in order, and those of
// different clients with delays of their own, an alarm is true of what has arrived.
func TestSentinelOfLateArrivals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	alarms, missed := 0, 0
	for i := range 20_000 {
		h := histories.Random(rnd)
		before := history.History{Params: h.Params, Events: slices.Clone(h.Events)}
		shuffle(rnd, h)
		got, _ := firstAlarm(h)
		if got == 0 {
			if violates(&before) {
				missed++
			}
			continue
		}
		alarms++
		so := &history.History{Params: h.Params, Events: slices.Clone(h.Events[:got]), Cut: "here"}
		history.Sort(so.Events)
		if why := facts.Read(so).Malformed; why != "" {
			t.Fatalf("history %d: malformed: %s", i, why)
		}
		if !violates(so) {
			t.Fatalf("history %d: false alarm after %d events:\n%s", i, got, histories.Lines(h))
		}
	}
	if alarms < 2000 || missed > alarms/10 {
		t.Errorf("%d alarms, %d missed", alarms, missed)
	}
}

// shuffle lets each process's events arrive late, and in order.
func shuffle(rnd *rand.Rand, h *history.History) {
	arrived := map[string]int64{}
	at := map[int64]int64{}
	for _, e := range h.Events {
		arrived[e.Process] = max(arrived[e.Process], e.T+histories.Beat*int64(rnd.IntN(4)))
		at[e.N] = arrived[e.Process]
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return cmp.Compare(at[a.N], at[b.N]) })
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
}

// A sentinel alarms in exactly those stories in which mutual exclusion is violated.
func TestSentinelOnStories(t *testing.T) {
	alarms := 0
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("find stories: %v, %d files", err, len(files))
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h := histories.Story(string(a.Files[0].Data))
		if facts.Read(h).Malformed != "" {
			continue
		}
		got, _ := firstAlarm(h)
		res := checker.Check(h, checker.MutualExclusion).Results[0]
		if want := firstViolated(h); got != want || res.Outcome != checker.Undecided && (got > 0) != (res.Outcome == checker.Violated) {
			t.Errorf("%s: alarm at event %d, violated from %d on, and Check says %s", file, got, want, res.Outcome)
		}
		if got > 0 {
			alarms++
		}
	}
	if alarms == 0 {
		t.Error("no story alarms")
	}
}

// The edges of what ends belief, one a line: what happens to c1's lease, which
// runs to 10 s, and whether c2's grant at 6 s, which an event at 7 s follows, alarms.
func TestSentinelRespects(t *testing.T) {
	const begin = "params clients=c1,c2 mayBeIdle\n0 c1 begin client\n0 c2 begin client\n" +
		"1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1 until=10\n"
	const end = "\n5 c2 invoke acquire session=c2/1\n6 c2 ok acquire session=c2/1 until=20\n7 harness info run"
	for name, row := range map[string]struct {
		text   string
		alarms bool
	}{
		"nothing":             {"", true},
		"a release":           {"4 c1 invoke release session=c1/1", false},
		"a kill":              {"4 nemesis invoke kill node=c1", false},
		"a kill of another":   {"4 nemesis invoke kill node=n1", true},
		"its end":             {"4 c1 end client", false},
		"a pause":             {"4 nemesis begin pause node=c1", true},
		"not held":            {"3 c1 invoke extend session=c1/1\n4 c1 fail extend session=c1/1", false},
		"nobody knows":        {"3 c1 invoke extend session=c1/1\n4 c1 info extend session=c1/1", true},
		"a shorter lease":     {"3 c1 invoke extend session=c1/1\n4 c1 ok extend session=c1/1 until=5", false},
		"a lease in the past": {"3 c1 invoke extend session=c1/1\n4 c1 ok extend session=c1/1 until=3", false},
		"reopened":            {"2.5 c1 invoke extend session=c1/1\n2.6 c1 ok extend session=c1/1 until=3\n4 c1 invoke extend session=c1/1\n5.5 c1 ok extend session=c1/1 until=9", true},
		"reopened in vain":    {"3 c1 invoke release session=c1/1\n3.5 c1 fail release session=c1/1\n4 c1 invoke extend session=c1/1\n5.5 c1 ok extend session=c1/1 until=9", false},
		"another key":         {"3 c1 invoke release session=c1/1\n3.5 c1 ok release session=c1/1\n4 c1 invoke acquire session=c1/2 key=k2\n5 c1 ok acquire session=c1/2 key=k2 until=20", false},
		"release as c2 gets":  {"6 c1 invoke release session=c1/1", false},
	} {
		h, err := story.Parse(begin + row.text + end)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := firstAlarm(h)
		if (got > 0) != row.alarms || got != firstViolated(h) {
			t.Errorf("%s: alarm at event %d of %d, Check violates at %d", name, got, len(h.Events), firstViolated(h))
		}
	}
}

func BenchmarkSentinel(b *testing.B) {
	events, params := longHistory(1_000_000)
	b.ResetTimer()
	for b.Loop() {
		s := sentinel.New(params)
		for i := range events {
			if a, ok := s.Event(&events[i]); ok {
				b.Fatalf("false alarm: %+v", a)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/event")
}

// longHistory is a lock that goes round among ten clients and keeps its promise.
func longHistory(n int) ([]history.Event, history.Params) {
	p := history.Params{StampError: time.Microsecond}
	for c := range 10 {
		p.Clients = append(p.Clients, "c"+strconv.Itoa(c))
	}
	var events []history.Event
	for i := 0; len(events) < n; i++ {
		c, at := p.Clients[i%10], int64(i)*int64(time.Second)
		session := c + "/" + strconv.Itoa(i)
		for j, e := range []history.Event{
			{Type: history.Invoke, Op: history.OpAcquire}, {Type: history.OK, Op: history.OpAcquire, ValidUntil: at + int64(900*time.Millisecond)},
			{Type: history.Invoke, Op: history.OpExtend}, {Type: history.OK, Op: history.OpExtend, ValidUntil: at + int64(950*time.Millisecond)},
			{Type: history.Invoke, Op: history.OpRelease}, {Type: history.OK, Op: history.OpRelease},
		} {
			e.N, e.T, e.Process, e.Session, e.Key = int64(len(events)+1), at+int64(j)*int64(100*time.Millisecond), c, session, "k"
			events = append(events, e)
		}
	}
	return events, p
}
