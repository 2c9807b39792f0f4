package lease

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// leaseCase is a history of one key together with its judgment.
type leaseCase struct {
	*facts.Facts
	k *leaseKey
}

func judgeLease(h *history.History) *leaseCase {
	r := facts.Read(h)
	opReader := &reader{ε: int64(r.Params.StampError), goneTimes: goneClients(r), lapsesAnytime: r.Params.NoLossNotice}
	return &leaseCase{r, judge(r, opReader, r.Locks[0], nil)}
}

// parseLease parses operations separated by semicolons. Each is written as SESSION OP OUTCOME
// CALL-RETURN [LAPSE]. A return of * or a missing lapse means never. Sessions 1, 1a and 1b belong
// to client c1.
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

// TestConflicts has a row for each kind of conflict, next to a similar case without one.
func TestConflicts(t *testing.T) {
	rows := []conflictRow{
		{"1 acquire fail 1-2; 1 release ok 3-4", verdict.Phantom, "1"},
		{"1 acquire fail 1-2; 1 extend ok 3-4 9", verdict.Phantom, "1"},
		{"1 acquire fail 1-2; 1 release fail 3-4", "", ""},
		{"1 acquire fail 1-2; 1 release info 3-*", "", ""},
		{"1 acquire info 1-*; 1 release ok 3-4", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release ok 5-6", verdict.DoubleRelease, "1"},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release fail 5-6", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release info 5-*", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 extend ok 5-6 9", verdict.HeldAfter, "1"},
		{"1 acquire ok 1-2 9; 1 release ok 3-4; 1 extend ok 4-6 9", verdict.HeldAfter, "1"},
		{"1 acquire ok 1-2 9; 1 release fail 3-8", verdict.LostEarly, "1"},
		{"1 acquire ok 1-2 9; 1 extend fail 3-8", verdict.LostEarly, "1"},
		{"1 acquire ok 1-2 9; 1 release fail 2-8", verdict.LostEarly, "1"},
		{"1 acquire info 1-*; 1 release fail 2-8; 1 extend ok 8-9 20", "", ""},
		{"1 acquire ok 1-2 9; 1 release fail 3-9", "", ""},
		{"1 acquire ok 1-2 9; 1 release info 3-*; 1 release fail 4-8", "", ""},
		{"1 acquire ok 1-2 5; 1 extend ok 3-4 9; 1 release fail 6-8", verdict.LostEarly, "1"},
		{"1 acquire ok 1-2 5; 1 release fail 6-8; 1 extend ok 10-11 15", verdict.LostEarly, "1"},
		{"1 acquire ok 1-2 9; 2 acquire ok 3-4 9", verdict.Overlap, "1 2"},
		{"1 acquire ok 1-2 4; 2 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2; 2 acquire ok 30-40 90", verdict.Overlap, "1 2"},
		{"1 acquire ok 1-2 9; 1 release info 3-*; 2 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 3-5; 2 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2 9; 1 release ok 5-6; 2 acquire ok 3-4 9", verdict.Overlap, "1 2"},
		{"1 acquire ok 1-2 5; 1 extend ok 8-9 20; 2 acquire ok 5-6 7; 2 release ok 7-8", verdict.Overlap, "1 2"},
		{"1 acquire info 1-*; 1 release ok 8-9; 2 acquire ok 3-4 5; 2 release ok 5-6", "", ""},
		{"1 acquire ok 1-2 20; 2 acquire ok 3-9 4", verdict.Buried, "1 2"},
		{"1 acquire ok 1-2 20; 1 release fail 9-10; 2 acquire fail 1-2; 2 release ok 3-4", verdict.Phantom, "2"}, // reports the earliest
		{"1 acquire ok 1-2 9; 2 acquire ok 3-9 4", "", ""},
		{"1 acquire ok 3-4 20; 2 acquire ok 3-5 4", "", ""},
		{"1 acquire ok 1-2 4; 2 acquire ok 3-6 4; 3 acquire ok 3-4 9", "", ""},
		{"1 acquire ok 1-2 5; 2 acquire ok 3-6 4; 3 acquire ok 3-4 9", verdict.Overlap, "1 3"},
		{"1 acquire ok 1-2 30; 2 acquire ok 3-4 6; 3 acquire ok 9-10 20", verdict.Overlap, "1 3"}, // reports the longest
		{"1 acquire ok 1-2 30; 2 acquire ok 3-4 6; 3 acquire ok 9-10 12", verdict.Overlap, "1 2"}, // reports the earliest of equally long conflicts
		// one client with two handles
		{"1a acquire ok 1-2; 1b acquire ok 3-4; 1a release ok 5-6", verdict.Overlap, "1a 1b"},
		{"1a acquire ok 3-3; 1b acquire ok 3-3; 1a release ok 3-3; 1b release ok 3-3", verdict.Overlap, "1a 1b"},
		{"1a acquire ok 3-3; 1a release ok 3-3; 1b acquire ok 3-3; 1b release ok 3-3", "", ""},
		{"1a acquire ok 3-3 10; 1b acquire ok 3-3; 1b release ok 3-3", verdict.Buried, "1a 1b"},
		{"1a acquire ok 3-3 4; 1b acquire ok 3-5; 1b release ok 5-6", "", ""},
		{"1a acquire ok 1-3; 1b acquire ok 3-3 3; 1a release info 3-*", verdict.Buried, "1a 1b"},
		{"1a acquire ok 1-3; 1a release info 3-*; 1b acquire ok 3-3 3", "", ""},
		{"1a acquire info 1-*; 1b acquire ok 2-3; 1b release ok 4-5; 1a release ok 6-7", "", ""},
		{"1a acquire info 1-*; 1b acquire ok 2-3; 1a extend ok 4-5 9; 1b release ok 6-7", verdict.Overlap, "1b 1a"},
	}
	for _, row := range rows {
		row.check(t)
	}
}

// A client that has called release no longer holds the lock, even if another session acquires the
// lock before the release returns. The answer "not held" to the release is a separate conflict.
func TestReleasesInProgress(t *testing.T) {
	for _, row := range []conflictRow{
		{"1 acquire ok 1-2 99; 1 release fail 10-14; 2 acquire ok 11-12 99", verdict.LostEarly, "1"},
		{"1 acquire ok 1-2 99; 1 release fail 10-14; 2 acquire ok 8-9 99", verdict.Overlap, "1 2"},
		{"1 acquire ok 1-2 99; 1 extend fail 10-14; 2 acquire ok 11-12 99", verdict.Overlap, "1 2"},
		{"1 acquire ok 1-2 99; 1 release fail 2-14; 2 acquire ok 3-12 99", verdict.LostEarly, "1"},
	} {
		row.check(t)
	}
}

// conflictRow contains the operations on a key, and the kind and the sessions of the expected
// conflict.
type conflictRow struct{ ops, kind, sessions string }

func (row conflictRow) check(t *testing.T) {
	t.Helper()
	h := parseLease(t, row.ops)
	c := judgeLease(h)
	k := c.k
	kind, sessions := "", []string(nil)
	if k.worstConflict != nil {
		kind = k.worstConflict.kind
		for _, s := range k.worstConflict.sessions {
			sessions = append(sessions, s.Name())
		}
		if description := k.worstConflict.reason(c.End); !strings.Contains(description, " k") {
			t.Errorf("%s: because %q", row.ops, description)
		}
	}
	if kind != row.kind || strings.Join(sessions, " ") != row.sessions || (kind == "") != (len(k.conflicts) == 0) {
		t.Errorf("%s: got %q between sessions %s, %d incidents; want %q between sessions %s", row.ops, kind, sessions, len(k.conflicts), row.kind, row.sessions)
	}
	if reason := contradiction(h); reason != "" {
		t.Errorf("%s: %s", row.ops, reason)
	}
}

// Connected conflicts count as one incident.
func TestIncidents(t *testing.T) {
	for ops, want := range map[string]int{
		"1 acquire ok 1-2 9; 2 acquire ok 3-4 9; 3 acquire ok 5-6 9":                                   1,
		"1 acquire ok 1-2 5; 2 acquire ok 3-4 5; 3 acquire ok 6-7 9; 4 acquire ok 7-8 9":               2,
		"1 acquire ok 1-2 9; 1 release fail 6-7; 2 acquire ok 3-4 5":                                   1,
		"1 acquire ok 1-2 5; 2 acquire ok 3-4 5; 3 acquire ok 11-12 19; 3 release fail 14-15":          2,
		"1 acquire ok 1-2 20; 2 acquire ok 3-9 4; 3 acquire ok 30-31 40; 3 release fail 34-35":         2,
		"1 acquire ok 1-2 9; 1 release ok 3-4; 1 release ok 5-6; 2 acquire fail 1-2; 2 release ok 7-8": 2,
		// a session that lost the lock early, and touches overlapping sessions without overlapping them
		"1 acquire ok 1-2 5; 2 acquire ok 3-4 5; 3 acquire ok 4-5 9; 3 release fail 6-7": 2,
		"1 acquire ok 1-2 5; 1 release fail 3-4; 2 acquire ok 4-5 9; 3 acquire ok 5-6 9": 2,
		// a session that lost the lock early, and overlaps a session that began long before
		"1 acquire ok 1-2 20; 2 acquire ok 3-4 6; 3 acquire ok 8-9 15; 3 release fail 10-11": 1,
	} {
		if got := len(judgeLease(parseLease(t, ops)).k.conflicts); got != want {
			t.Errorf("%s: %d incidents, want %d", ops, got, want)
		}
	}
}

// The certificate rejects holds that do not explain the answers.
func TestCertificate(t *testing.T) {
	const ops = "1 acquire ok 1-2 5; 1 extend ok 4-6 9; 1 release ok 12-14; 2 acquire ok 11-16 20; 3 acquire ok 13-30 15"
	rows := []struct {
		spoil func(k *leaseKey)
		want  string
	}{
		{func(k *leaseKey) {}, ""},
		{func(k *leaseKey) { k.firmHolds[0].From = 3 }, "1: acquire ok between 1 ns and 2 ns does not fit a hold from 3 ns to 12 ns"},
		{func(k *leaseKey) { k.firmHolds[0].To = 11 }, "1: release ok between"},
		{func(k *leaseKey) { k.firmHolds[0].To = 17 }, "1: release ok between"},
		{func(k *leaseKey) { k.firmHolds[1].To = 19 }, "2: nothing can have ended its hold at 19 ns"},
		{func(k *leaseKey) { k.firmHolds[1].From = 11 }, "1 and 2 hold the lock at the same time"},
		{func(k *leaseKey) { k.briefHolds[0].From, k.briefHolds[0].To = 17, 18 }, "3 has no free instant"},
		{func(k *leaseKey) { k.briefHolds[0].From, k.briefHolds[0].To = 14, 14 }, "3: nothing can have ended its hold at 14 ns"},
	}
	const extendedOps = "1 acquire ok 1-2 5; 1 extend ok 3-4 6; 1 extend ok 5-7 20; 2 acquire info 21-*; 2 release fail 24-26; 2 extend ok 28-29 40"
	movedHolds := []struct {
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
	for _, m := range movedHolds {
		k := judgeLease(parseLease(t, extendedOps)).k
		k.firmHolds[m.session].From, k.firmHolds[m.session].To = m.from, m.to
		if got := k.verifyCertificate(); !strings.HasPrefix(got, m.want) || (m.want == "") != (got == "") {
			t.Errorf("hold %d from %d to %d: got %q, want %q", m.session, m.from, m.to, got, m.want)
		}
	}
	const refusedOps = "1 acquire ok 1-2 5; 1 release fail 6-8"
	k := judgeLease(parseLease(t, refusedOps)).k
	k.firmHolds[0].To = 9
	if got := k.verifyCertificate(); !strings.HasPrefix(got, "1: release fail between") {
		t.Errorf("a hold past the answer \"not held\": got %q", got)
	}
	k = judgeLease(parseLease(t, "1a acquire ok 3-5 4; 1b acquire ok 11-12 30")).k // a brief hold and a firm hold
	k.briefHolds[0].From, k.briefHolds[0].To = 15, 15
	if got := k.findDisorder(map[string][]hold{"c1": k.briefHolds}); got != "1b held the lock before 1a, but was called after it" {
		t.Errorf("a hold before an earlier one: got %q", got)
	}
	for i, row := range rows {
		k := judgeLease(parseLease(t, ops)).k
		if len(k.firmHolds) != 2 || len(k.briefHolds) != 1 || k.worstConflict != nil {
			t.Fatalf("%d firm holds, %d brief holds, %+v", len(k.firmHolds), len(k.briefHolds), k.worstConflict)
		}
		row.spoil(k)
		if got := k.verifyCertificate(); !strings.HasPrefix(got, row.want) || (row.want == "") != (got == "") {
			t.Errorf("row %d: got %q, want %q", i, got, row.want)
		}
	}
}
