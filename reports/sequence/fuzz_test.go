package sequence

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// choices is a source of choices: first bytes from the fuzzer, then zeros without end.
type choices []byte

func (p *choices) intn(n int) int {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return int(b) % n
}

func choose[T any](p *choices, values ...T) T { return values[p.intn(len(values))] }

// randomHistory returns a random history and result, both made of realistic and extreme values.
func randomHistory(p *choices) (*history.History, *verdict.Result) {
	long := strings.Repeat("ü", 200)
	names := []string{"c1", "c2", "c3", "n1", "n3", "c1-n1", "c1-n3", "c2-r1", "r1", history.Nemesis, history.Harness, "", "\x1b[2J", long}
	sessions := []string{"c1/1", "c1/2", "c2/1", "c3/1", "", "\n"}
	ops := []string{history.OpAcquire, history.OpAcquire, history.OpRead, history.OpCheck, history.OpWrite, history.OpRelease, history.OpExtend,
		history.OpSet, history.OpLife, history.OpLog, history.OpClient, history.OpRun, "pause", "kill", "cut", "hold", "\x00"}
	types := []history.Type{history.Invoke, history.OK, history.OK, history.Fail, history.Info, history.Begin, history.End, "?"}
	times := []int64{0, 1, 5e8, 1e9, 1e9 + 1, 2e9, 11e9, 12e9, -1, -5e9, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1}
	texts := []string{"", "write", "read", "a", "b", "\x1b[31m\u202e", "日本", long, "%s%d", "a\u0301"}
	h := &history.History{Params: history.Params{Scenario: choose(p, texts...), Quorum: p.intn(4) - 1, Resource: choose(p, names...), Fence: choose(p, "none", "token", "check-and-set"), ReportsKeys: p.intn(2) == 0}}
	for range p.intn(8) {
		h.Params.Nodes = append(h.Params.Nodes, choose(p, "n1", "n2", "n3", "n4", "", long))
		h.Params.Clients = append(h.Params.Clients, choose(p, names...))
	}
	for len(*p) > 0 {
		h.Events = append(h.Events, history.Event{
			N: int64(p.intn(256)), T: choose(p, times...), Process: choose(p, names...), Type: choose(p, types...), Op: choose(p, ops...),
			Key: choose(p, "lock-1", "lock-1", long, ""), Session: choose(p, sessions...), Token: choose(p, texts...), Fence: choose(p, times...),
			ValidUntil: choose(p, times...), Node: choose(p, "", "", "n1", "n3", "r1", "c1", "c1-n3", long), Value: choose(p, texts...),
			Version: choose(p, times...), TTL: choose(p, times...), SentAt: choose(p, times...), AppliedAt: choose(p, times...), AnsweredAt: choose(p, times...),
			Step: p.intn(3), Cause: choose(p, texts...),
		})
		if e := &h.Events[len(h.Events)-1]; e.Op == history.OpLife {
			e.Life = &history.Life{Kind: choose(p, history.KeySet, history.KeySet, history.KeyExpired, history.KeyDeleted, history.KeyChanged, history.KeyLost),
				Seq: int64(len(h.Events)), Value: choose(p, texts...), Expiry: choose(p, times...), Sender: choose(p, names...)}
			e.Local = choose(p, times...)
		}
	}
	if p.intn(2) == 0 && len(h.Events) > 0 {
		history.Sort(h.Events)
	}
	r := &verdict.Result{Property: choose(p, append(checker.Properties(), "\x1b")...), Outcome: verdict.Violated, Cause: choose(p, append(verdict.Causes(), texts...)...), Node: choose(p, names...), Bound: choose(p, times...),
		Witness: &verdict.Witness{Sessions: []string{"c1/1", choose(p, "c2/1", "c1/2", "c1/1", "gone")}, Key: choose(p, "lock-1", "lock-1", ""), From: choose(p, times...), To: choose(p, times...)},
		Losses:  []verdict.Loss{{Node: choose(p, names...), Cause: choose(p, verdict.Causes()...), Fact: int64(p.intn(256)), First: "c1/1", Second: "c2/1"}}}
	return h, choose(p, r, r, nil)
}

// checkFits checks that no line of a text drawing exceeds the width, and that special characters are
// escaped.
func checkFits(t *testing.T, h *history.History, r *verdict.Result, width int) {
	t.Helper()
	text := Text(ForResult(h, r), width)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > width {
			t.Errorf("line has %d characters, want at most %d: %s", n, width, line)
		}
		for _, c := range line {
			if c < ' ' || c > '~' && !unicode.IsGraphic(c) || unicode.Is(unicode.Mn, c) || c == '\u202e' || c == '日' {
				t.Errorf("%U is not escaped: %q", c, line)
			}
		}
	}
}

func TestAnyHistoryFitsWidth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		raw := make([]byte, rng.IntN(1500))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		p := choices(raw)
		h, r := randomHistory(&p)
		checkFits(t, h, r, 60+rng.IntN(101))
	}
}

func FuzzSequence(f *testing.F) {
	f.Add([]byte("\x03\x01\x01\x02 acquire ok acquire"), uint8(20))
	f.Fuzz(func(t *testing.T, raw []byte, width uint8) {
		p := choices(raw)
		h, r := randomHistory(&p)
		checkFits(t, h, r, 60+int(width)%101)
	})
}
