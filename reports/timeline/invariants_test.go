package timeline

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

func TestLayoutInvariants(t *testing.T) {
	files, err := filepath.Glob("../../checker/testdata/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("find test histories: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { checkLayout(t, readHistory(t, file)) })
	}
}

// checkLayout checks that the layout of a history has no inconsistencies and agrees with the checker's
// numbers.
func checkLayout(t *testing.T, h *history.History) Timeline {
	t.Helper()
	return checkLayoutOf(t, h, checker.Check(h))
}

func checkLayoutOf(t *testing.T, h *history.History, v verdict.Verdict) Timeline {
	t.Helper()
	tl := New(h, v)
	first, err := json.Marshal(tl)
	if second, _ := json.Marshal(New(h, v)); err != nil || !bytes.Equal(first, second) {
		t.Errorf("two layouts of the same run differ (%v)", err)
	}
	checkGeometry(t, tl)
	checkItems(t, tl, h)
	checkIncidents(t, tl, v)
	if tl.Omitted == "" && v.Assumption == "" && v.Numbers != nil {
		checkCounts(t, tl, h, v)
	}
	return tl
}

func checkGeometry(t *testing.T, tl Timeline) {
	t.Helper()
	y := 0
	for _, l := range tl.Lanes {
		if l.Y < y || l.H <= 0 {
			t.Errorf("lane %s is at %d+%d, but the previous lane ends at %d", l.Name, l.Y, l.H, y)
		}
		y = l.Y + l.H
	}
	if y > tl.Height {
		t.Errorf("lanes end at %d, which exceeds the height %d", y, tl.Height)
	}
	for n, r := range tl.Rows {
		if l := tl.Lanes[r.Lane]; r.Y < l.Y || r.Y+r.H > l.Y+l.H {
			t.Errorf("row %d is at %d+%d, outside its lane %s", n, r.Y, r.H, l.Name)
		}
	}
	if tl.InitialView[0] < 0 || tl.InitialView[0] >= tl.InitialView[1] || tl.InitialView[1] > tl.End {
		t.Errorf("initial view is %v, run ends at %d", tl.InitialView, tl.End)
	}
}

func checkItems(t *testing.T, tl Timeline, h *history.History) {
	t.Helper()
	isKnown := map[int64]bool{}
	for _, e := range h.Events {
		isKnown[e.N] = true
	}
	for n, i := range tl.Items {
		if i.From < 0 || i.To < i.From || i.To > tl.End {
			t.Errorf("item outside the run: %s", formatItem(tl, i))
		}
		if len(i.Events) == 0 {
			t.Errorf("item without an event: %s", formatItem(tl, i))
		}
		for _, e := range i.Events {
			if !isKnown[e] {
				t.Errorf("item with unknown event %d: %s", e, formatItem(tl, i))
			}
		}
		if n == 0 || tl.Items[n-1].Row != i.Row {
			continue
		}
		if last := tl.Items[n-1]; last.From > i.From || !tl.Rows[i.Row].Cover && last.To > i.From {
			t.Errorf("overlap in row %d of %s:\n%s\n%s", i.Row, tl.Lanes[tl.Rows[i.Row].Lane].Name, formatItem(tl, last), formatItem(tl, i))
		}
	}
}

// checkIncidents checks that all incidents that the verdict counts are listed, and that the initial view
// includes the incident that the verdict shows.
func checkIncidents(t *testing.T, tl Timeline, v verdict.Verdict) {
	t.Helper()
	listed := map[string]int{}
	for i, x := range tl.Views {
		listed[x.Property]++
		if i > 0 && x.From < tl.Views[i-1].From || x.From < 0 || x.From > x.To || x.To > tl.End {
			t.Errorf("incident %d of %s is at %d to %d", i, x.Property, x.From, x.To)
		}
	}
	for _, r := range v.Results {
		if r.Witness != nil && r.Incidents > 0 && listed[r.Property] != r.Incidents {
			t.Errorf("%d incidents of %s listed, but the checker counts %d: %+v", listed[r.Property], r.Property, r.Incidents, tl.Views)
		}
	}
	if tl.Unlisted != "" {
		t.Error(tl.Unlisted)
	}
	if len(tl.Views) > 0 {
		if x := tl.Views[tl.First]; tl.InitialView[0] > x.From || tl.InitialView[1] < x.To {
			t.Errorf("initial view is %v, but the violation lasts from %d to %d", tl.InitialView, x.From, x.To)
		}
	}
}

func checkCounts(t *testing.T, tl Timeline, h *history.History, v verdict.Verdict) {
	t.Helper()
	numDrawn := map[string]float64{}
	for _, i := range tl.Items {
		numDrawn[tl.Kinds[i.Kind].Class]++
	}
	doubleHold, holders := 0.0, int64(0)
	for _, l := range tl.Lines {
		for k, p := range l.Points {
			holders = max(holders, p[1])
			if p[1] > 1 && k+1 < len(l.Points) {
				doubleHold += float64(l.Points[k+1][0]-p[0]) / 1e6
			}
		}
	}
	if want := v.Numbers["double-hold-seconds"]; math.Abs(doubleHold-want) > 1e-5*(1+v.Numbers["incidents"]) {
		t.Errorf("step line shows more than one holder for %f s, but the checker counts %f s", doubleHold, want)
	}
	if r := v.Result(verdict.MutualExclusion); r.Outcome != verdict.Undecided && (holders > 1) != (r.Outcome == verdict.Violated) {
		t.Errorf("step line reaches %d, but mutual exclusion is %s", holders, r.Outcome)
	}
	if numDrawn["acquire-ok"] != v.Numbers["grants"] {
		t.Errorf("%v grants drawn, want %v", numDrawn["acquire-ok"], v.Numbers["grants"])
	}
	if r := v.Result(verdict.ResourceSafety); r.Outcome != verdict.Undecided && (numDrawn["accepted"]+numDrawn["damage"]+numDrawn["refused"] != v.Numbers["writes"] || numDrawn["refused"] != v.Numbers["refused-writes"]) {
		t.Errorf("writes drawn: %v, counted: %v, refused %v", numDrawn, v.Numbers["writes"], v.Numbers["refused-writes"])
	}
	if r := v.Result(verdict.ResourceSafety); r.Outcome == verdict.Violated && numDrawn["damage"] == 0 && numDrawn["accepted"] > 0 && r.Cause != verdict.Unexplained {
		t.Error("no write is marked as damaging, but resource-safety is violated")
	}
}
