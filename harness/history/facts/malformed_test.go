package facts

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/harness/history"
	"lockpick/internal/histories"
)

// Each event of several valid histories is corrupted in various ways. The reported defect must name
// that event.
func TestCorruptedEventsAreDefects(t *testing.T) {
	corruptions := map[string]func(e, other *history.Event) bool{
		"type":    func(e, _ *history.Event) bool { e.Type += "ay"; return true },
		"no type": func(e, _ *history.Event) bool { e.Type = ""; return true },
		"op": func(e, _ *history.Event) bool {
			e.Op = strings.ToUpper(e.Op[:1]) + e.Op[1:]
			return e.Process != history.Nemesis
		},
		"no op":    func(e, _ *history.Event) bool { e.Op = ""; return e.Process != history.Nemesis },
		"number":   func(e, other *history.Event) bool { e.N = other.N; return true },
		"late":     func(e, _ *history.Event) bool { e.T = math.MaxInt64 - 1; return true },
		"early":    func(e, _ *history.Event) bool { e.T = math.MinInt64; return true },
		"sent":     func(e, _ *history.Event) bool { e.SentAt = math.MinInt64; return true },
		"applied":  func(e, _ *history.Event) bool { e.AppliedAt = math.MaxInt64; return true },
		"answered": func(e, _ *history.Event) bool { e.AnsweredAt = math.MaxInt64; return true },
		"deadline": func(e, _ *history.Event) bool { e.ValidUntil = math.MaxInt64; return true },
		"ttl":      func(e, _ *history.Event) bool { e.TTL = math.MinInt64; return true },
		"clock":    func(e, _ *history.Event) bool { e.Local = math.MinInt64; return true },
	}
	numCorrupted := 0
	for _, name := range []string{"attempts", "sessions", "faults", "resource", "stopped"} {
		a, err := txtar.ParseFile(filepath.Join("testdata", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := histories.Parse(string(a.Files[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		if defect := Read(h).Defect; defect != "" {
			t.Fatalf("%s: unexpected defect: %s", name, defect)
		}
		for i := range h.Events {
			for kind, corrupt := range corruptions {
				events := slices.Clone(h.Events)
				e := &events[i]
				if !corrupt(e, &events[(i+1)%len(events)]) {
					continue
				}
				numCorrupted++
				n := fmt.Sprint(e.N)
				history.Sort(events)
				defect := Read(&history.History{Params: h.Params, Events: events}).Defect
				if !strings.Contains(defect, n) {
					t.Errorf("%s: event %d with corrupted %s: got defect %q", name, h.Events[i].N, kind, defect)
				}
			}
		}
	}
	if numCorrupted < 500 {
		t.Errorf("only %d events were corrupted", numCorrupted)
	}
}

func TestParamsOutOfRangeAreDefects(t *testing.T) {
	for i, corrupt := range []func(*history.Params){
		func(p *history.Params) { p.TTL = math.MaxInt64 }, func(p *history.Params) { p.TTL = -1 },
		func(p *history.Params) { p.StampError = math.MaxInt64 }, func(p *history.Params) { p.StampError = -time.Second },
		func(p *history.Params) { p.Rate = math.NaN() }, func(p *history.Params) { p.Rate = -1 }, func(p *history.Params) { p.Rate = math.Inf(1) },
		func(p *history.Params) { p.NodeTimeout = math.MinInt64 }, func(p *history.Params) { p.RetryMax = math.MaxInt64 },
		func(p *history.Params) { p.Slack = math.MaxInt64 }, func(p *history.Params) { p.MaxHold = math.MaxInt64 },
	} {
		h := &history.History{}
		if corrupt(&h.Params); Read(h).Defect == "" {
			t.Errorf("invalid parameter %d was accepted: %+v", i, h.Params)
		}
	}
}
