package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockpick/harness/history"
)

// leaseCase is the history of one key.
type leaseCase struct {
	*record
	k *leaseKey
}

// judgeLease judges the case's only key.
func judgeLease(h *history.History) *leaseCase {
	r := newRecord(h)
	return &leaseCase{r, r.lease(r.Locks[0])}
}

// parseLease reads operations, each SESSION OP OUTCOME CALL-RETURN [LAPSE],
// apart by semicolons. A return of * or a lapse that isn't given is never. The session
// 1 is of client c1, and so are 1a and 1b.
func parseLease(t testing.TB, text string) *history.History {
	t.Helper()
	h := &history.History{Params: history.Params{MayBeIdle: true}}
	at := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, part := range strings.Split(text, ";") {
		f := strings.Fields(part)
		client := "c" + f[0][:1]
		if !slices.Contains(h.Params.Clients, client) {
			h.Params.Clients = append(h.Params.Clients, client)
			h.Events = append(h.Events, history.Event{Process: client, Type: history.Begin, Op: history.OpClient})
		}
		call, ret, _ := strings.Cut(f[3], "-")
		e := history.Event{T: at(call), Process: client, Type: history.Invoke, Op: f[1], Session: f[0], Key: "k"}
		h.Events = append(h.Events, e)
		if e.Type = history.Type(f[2]); ret != "*" {
			e.T = at(ret)
		}
		if len(f) > 4 {
			e.ValidUntil = at(f[4])
		}
		h.Events = append(h.Events, e)
	}
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return int(a.T - b.T) })
	for i := range h.Events {
		h.Events[i].N = int64(i + 1)
	}
	return h
}

// TestConflicts goes through the ways in which no lease lock can have answered,
// each next to the case that is just fine.
func TestConflicts(t *testing.T) {
	rows := []struct{ ops, kind, sessions string }{
		{"1 acquire fail 1-2; 1 release ok 3-4", Phantom, "1"},
		{"1 acquire fail 1-2; 1 extend ok 3-4 9", Phantom, "1"},
		{"1 acquire fail 1-2; 1 release fail 3-4", "", ""},
		{"1 acquire fail 1-2; 1 release info 3-*", "", ""},
		{"1 acquire info 1-*; 1 release ok 3-4", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release ok 5-6", DoubleRelease, "1"},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release fail 5-6", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release info 5-*", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 extend ok 5-6 9", HeldAfter, "1"},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 extend ok 4-6 9", HeldAfter, "1"},
		{"1 acquire ok 1-2 9; 1 release fail 3-8", LostEarly, "1"},
		{"1 acquire ok 1-2 9; 1 extend fail 3-8", LostEarly, "1"},
		{"1 acquire ok 1-2 9; 1 release fail 2-8", LostEarly, "1"},
		{"1 acquire info 1-*; 1 release fail 2-8; 1 extend ok 8-9 20", "", ""},
		{"1 acquire ok 1-2 9; 1 release fail 3-9", "", ""},
		{"1 acquire ok 1-2 9; 1 release info 3-*; 1 release fail 4-8", "", ""},
		{"1 acquire ok 1-2 5; 1 extend ok 3-4 9; 1 release fail 6-8", LostEarly, "1"},
		{"1 acquire ok 1-2 5; 1 release fail 6-8; 1 extend ok 10-11 15", LostEarly, "1"},
		{"1 acquire ok 1-2 9; 2 acquire ok 3-4 9", Overlap, "1 2"},
		{"1 acquire ok 1-2 4; 2 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2; 2 acquire ok 30-40 90", Overlap, "1 2"},
		{"1 acquire ok 1-2 9; 1 release info 3-*; 2 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-5; 2 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 5-6; 2 acquire ok 3-4 9", Overlap, "1 2"},
		{"1 acquire ok 1-2 5; 1 extend ok 8-9 20; 2 acquire ok 5-6 7; 2 release ok 7-8", Overlap, "1 2"},
		{"1 acquire info 1-*; 1 release ok 8-9; 2 acquire ok 3-4 5; 2 release ok 5-6", "", ""},
		{"1 acquire ok 1-2 20; 2 acquire ok 3-9 4", Buried, "1 2"},
		{"1 acquire ok 1-2 20; 1 release fail 9-10; 2 acquire fail 1-2; 2 release ok 3-4", Phantom, "2"}, // the earliest
		{"1 acquire ok 1-2 9; 2 acquire ok 3-9 4", "", ""},
		{"1 acquire ok 3-4 20; 2 acquire ok 3-5 4", "", ""},
		{"1 acquire ok 1-2 4; 2 acquire ok 3-6 4; 3 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2 5; 2 acquire ok 3-6 4; 3 acquire ok 3-4 9", Overlap, "1 3"},
		{"1 acquire ok 1-2 30; 2 acquire ok 3-4 6; 3 acquire ok 9-10 20", Overlap, "1 3"}, // the longest
		{"1 acquire ok 1-2 30; 2 acquire ok 3-4 6; 3 acquire ok 9-10 12", Overlap, "1 2"}, // of equals the earliest
		// one client with two handles
		{"1a acquire ok 1-2; 1b acquire ok 3-4; 1a release ok 5-6", Overlap, "1a 1b"},
		{"1a acquire ok 3-3; 1b acquire ok 3-3; 1a release ok 3-3; 1b release ok 3-3", Overlap, "1a 1b"},
		{"1a acquire ok 3-3; 1a release ok 3-3; 1b acquire ok 3-3; 1b release ok 3-3", "", ""},
		{"1a acquire ok 3-3 10; 1b acquire ok 3-3; 1b release ok 3-3", Buried, "1a 1b"},
		{"1a acquire ok 3-3 4; 1b acquire ok 3-5; 1b release ok 5-6", "", ""},
		{"1a acquire ok 1-3; 1b acquire ok 3-3 3; 1a release info 3-*", Buried, "1a 1b"},
		{"1a acquire ok 1-3; 1a release info 3-*; 1b acquire ok 3-3 3", "", ""},
		{"1a acquire info 1-*; 1b acquire ok 2-3; 1b release ok 4-5; 1a release ok 6-7", "", ""},
		{"1a acquire info 1-*; 1b acquire ok 2-3; 1a extend ok 4-5 9; 1b release ok 6-7", Overlap, "1b 1a"},
	}
	for _, row := range rows {
		h := parseLease(t, row.ops)
		c := judgeLease(h)
		k := c.k
		kind, sessions := "", []string(nil)
		if k.worst != nil {
			kind = k.worst.kind
			for _, s := range k.worst.sessions {
				sessions = append(sessions, s.Name())
			}
			if because := k.worst.because(c.record); !strings.Contains(because, " k") {
				t.Errorf("%s: because %q", row.ops, because)
			}
		}
		if kind != row.kind || strings.Join(sessions, " ") != row.sessions || (kind == "") != (k.incidents == 0) {
			t.Errorf("%s: got %q by %s, %d incidents; want %q by %s", row.ops, kind, sessions, k.incidents, row.kind, row.sessions)
		}
		if why := contradiction(h); why != "" {
			t.Errorf("%s: %s", row.ops, why)
		}
	}
}

// TestIncidents counts what belongs together once.
func TestIncidents(t *testing.T) {
	for ops, want := range map[string]int{
		"1 acquire ok 1-2 9; 2 acquire ok 3-4 9; 3 acquire ok 5-6 9":                                   1,
		"1 acquire ok 1-2 5; 2 acquire ok 3-4 5; 3 acquire ok 6-7 9; 4 acquire ok 7-8 9":               2,
		"1 acquire ok 1-2 9; 1 release fail 6-7; 2 acquire ok 3-4 5":                                   1,
		"1 acquire ok 1-2 5; 2 acquire ok 3-4 5; 3 acquire ok 11-12 19; 3 release fail 14-15":          2,
		"1 acquire ok 1-2 20; 2 acquire ok 3-9 4; 3 acquire ok 30-31 40; 3 release fail 34-35":         2,
		"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release ok 5-6; 2 acquire fail 1-2; 2 release ok 7-8": 2,
		// a session that lost early and overlaps none, but touches some that do
		"1 acquire ok 1-2 5; 2 acquire ok 3-4 5; 3 acquire ok 4-5 9; 3 release fail 6-7": 2,
		"1 acquire ok 1-2 5; 1 release fail 3-4; 2 acquire ok 4-5 9; 3 acquire ok 5-6 9": 2,
		// and one that overlaps only what began long before
		"1 acquire ok 1-2 20; 2 acquire ok 3-4 6; 3 acquire ok 8-9 15; 3 release fail 10-11": 1,
	} {
		if got := judgeLease(parseLease(t, ops)).k.incidents; got != want {
			t.Errorf("%s: %d incidents, want %d", ops, got, want)
		}
	}
}

// TestCertificate shows that the certificate finds holds that don't explain the answers.
func TestCertificate(t *testing.T) {
	const ops = "1 acquire ok 1-2 5; 1 extend ok 4-6 9; 1 release ok 12-14; 2 acquire ok 11-16 20; 3 acquire ok 13-30 15"
	rows := []struct {
		spoil func(k *leaseKey)
		want  string
	}{
		{func(k *leaseKey) {}, ""},
		{func(k *leaseKey) { k.firm[0].from = 3 }, "1: acquire ok between 1 ns and 2 ns does not fit a hold from 3 ns to 12 ns"},
		{func(k *leaseKey) { k.firm[0].to = 11 }, "1: release ok between"},
		{func(k *leaseKey) { k.firm[0].to = 17 }, "1: release ok between"},
		{func(k *leaseKey) { k.firm[1].to = 19 }, "2: nothing can have ended its hold at 19 ns"},
		{func(k *leaseKey) { k.firm[1].from = 11 }, "1 and 2 hold at once"},
		{func(k *leaseKey) { k.brief[0].from, k.brief[0].to = 17, 18 }, "3 finds no instant that is free"},
		{func(k *leaseKey) { k.brief[0].from, k.brief[0].to = 14, 14 }, "3: nothing can have ended its hold at 14 ns"},
	}
	const extended = "1 acquire ok 1-2 5; 1 extend ok 3-4 6; 1 extend ok 5-7 20; 2 acquire info 21-*; 2 release fail 24-26; 2 extend ok 28-29 40"
	moved := []struct {
		session  int
		from, to int64
		want     string
	}{
		{0, 2, 20, ""},
		{0, 2, 10, "1: nothing can have ended its hold at 10 ns"},
		{0, 0, 20, "1: acquire ok between"},
		{1, 23, 40, "2: release fail between"},
		{1, 30, 40, "2: extend ok between"},
	}
	for _, m := range moved {
		k := judgeLease(parseLease(t, extended)).k
		k.firm[m.session].from, k.firm[m.session].to = m.from, m.to
		if got := k.uncertified(); !strings.HasPrefix(got, m.want) || (m.want == "") != (got == "") {
			t.Errorf("hold %d from %d to %d: got %q, want %q", m.session, m.from, m.to, got, m.want)
		}
	}
	for i, row := range rows {
		k := judgeLease(parseLease(t, ops)).k
		if len(k.firm) != 2 || len(k.brief) != 1 || k.worst != nil {
			t.Fatalf("%d firm holds, %d brief ones, %+v", len(k.firm), len(k.brief), k.worst)
		}
		row.spoil(k)
		if got := k.uncertified(); !strings.HasPrefix(got, row.want) || (row.want == "") != (got == "") {
			t.Errorf("row %d: got %q, want %q", i, got, row.want)
		}
	}
}

// TestLeaseStampError checks that what the error of the stamps can explain is
// no violation, for either judge, and that it never puts extensions out of order.
func TestLeaseStampError(t *testing.T) {
	const early = `
params clients=c1 stampError=%s
0     c1 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=1.010
1.001 c1 invoke release session=c1/1
1.005 c1 fail release session=c1/1
9     harness end run`
	const extends = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=1
0.020 c1 invoke extend session=c1/1
0.023 c1 ok extend session=c1/1 until=2
0.024 c1 invoke extend session=c1/1
0.027 c1 ok extend session=c1/1 until=5
3     c2 invoke acquire session=c2/1
3.003 c2 ok acquire session=c2/1 until=8
9     harness end run`
	const hands = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.020 c2 invoke acquire session=c2/1
1.000 c2 ok acquire session=c2/1 until=8
1.001 c1 invoke release session=c1/1
1.005 c1 ok release session=c1/1
9     harness end run`
	const atOnce = `
params clients=c1 stampError=%s
0     c1 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.013 c1 invoke release session=c1/1
0.015 c1 fail release session=c1/1
9     harness end run`
	const says = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=2
0.020 c1 invoke extend session=c1/1
0.023 c1 ok extend session=c1/1
3     c2 invoke acquire session=c2/1
3.003 c2 ok acquire session=c2/1 until=8
9     harness end run`
	for _, row := range []struct {
		story, ε string
		want     Outcome
	}{
		{hands, "0s", Violated}, {hands, "400us", Violated}, {hands, "500us", Holds},
		{atOnce, "0s", Violated}, // one thing after the other, whatever the stamps
		{says, "0s", Holds},      // an extension that claims nothing moves no deadline
		{early, "0s", Violated}, {early, "2ms", Violated}, {early, "2500us", Holds}, {early, "2s", Holds},
		{extends, "0s", Violated}, {extends, "100ms", Violated}, {extends, "2s", Holds},
	} {
		v := Check(tale(t, fmt.Sprintf(row.story, row.ε)))
		if got := v.Result(LeaseLinearizable); got.Outcome != row.want || v.Second != row.want || v.Disagreement != "" {
			t.Errorf("stamp error %s: %s, porcupine %s, want %s: %s %s", row.ε, got.Outcome, v.Second, row.want, got.Because, v.Disagreement)
		}
	}
}

// TestWorstOfKeys checks that of several keys' overlaps the longest is shown.
func TestWorstOfKeys(t *testing.T) {
	text := "params clients=c1,c2\n0 c1 begin client\n0 c2 begin client"
	for i, lasts := range []string{"0.9", "3", "2"} {
		for _, c := range []string{"c1", "c2"} {
			text += fmt.Sprintf("\n0.01%d %s invoke acquire session=%s/%d key=k%d\n0.01%[1]d5 %[2]s ok acquire session=%[2]s/%[4]d key=k%[5]d until=%s",
				i, c, c, i, i, lasts)
		}
	}
	res := Check(tale(t, text+"\n9 harness end run")).Result(LeaseLinearizable)
	if res.Outcome != Violated || res.Incidents != 3 || res.Witness.Key != "k1" {
		t.Errorf("got %+v", res)
	}
}
