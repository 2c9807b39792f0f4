package checker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
)

// In each of lateHistories, something takes longer than a property allows. since is when it begins,
// and bound is how long it may take, in seconds.
var lateHistories = []struct {
	name, property string
	since, bound   float64
	history        func(took float64) string
}{
	{"no client gets a free lock", verdict.FaultTolerance, 1, 1.5, func(took float64) string {
		return fmt.Sprintf(`params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rounds=4
0 c1 begin client
0 c2 begin client
1 c1 invoke acquire session=c1/1
%[1]f c1 ok acquire session=c1/1 until=90
85 c1 invoke release session=c1/1
85 c1 ok release session=c1/1
99 harness end run`, 1+took)
	}},
	{"a release returns late", verdict.FaultTolerance, 1, 12.1, func(took float64) string {
		return heldLock + fmt.Sprintf("1 c1 invoke release session=c1/1\n%[1]f c1 ok release session=c1/1\n%[1]f c1 end client\n99 harness end run", 1+took)
	}},
	{"a dead client's lock is free too late", verdict.DeadlockFreedom, 1.001, 10.8, func(took float64) string {
		return fmt.Sprintf(`params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.020 c2 invoke acquire session=c2/1
1.000 nemesis invoke kill node=c1
1.001 nemesis begin kill node=c1
%f c2 ok acquire session=c2/1 until=80
99 harness end run`, 1.001+took)
	}},
	{"a hold is too long", verdict.BoundedHold, 1, 15, func(took float64) string {
		return fmt.Sprintf(`params clients=c1,c2 nodes=n1 maxExtends=3 maxHold=15s
1 c1 invoke acquire session=c1/1
1 c1 ok acquire session=c1/1 until=11
4 c1 invoke extend session=c1/1
4 c1 ok extend session=c1/1 until=%f
99 harness end run`, 1+took)
	}},
	{"an acquire returns an expired lock", verdict.ValidOnReturn, 2, 0.25, func(took float64) string {
		return fmt.Sprintf("params clients=c1 nodes=n1 slack=250ms\n1 c1 invoke acquire session=c1/1\n%f c1 ok acquire session=c1/1 until=2", 2+took)
	}},
	{"a client works past its lease", verdict.ResourceSafety, 4.2, 0.8, func(took float64) string {
		return resourcePrelude + fmt.Sprintf(`
4.0 c1 invoke read session=c1/1
4.1 c1 ok read session=c1/1 version=0
4.2 c1 invoke write session=c1/1 value=x version=0
%[1]f c1 ok write session=c1/1
5.21 c2 invoke read session=c2/1
5.22 c2 ok read session=c2/1 version=0
5.23 c2 invoke write session=c2/1 value=y version=0
5.24 c2 ok write session=c2/1
99 harness end run`, 4.2+took)
	}},
	{"two clients work at the same time because a holder is not notified", verdict.HolderNotified, 11.011, 1, func(took float64) string {
		return strings.Replace(unnotifiedLock, "END", fmt.Sprintf("11.011 n1 life expired old=A\n%f c1 info lost session=c1/1", 11.011+took), 1)
	}},
}

// TestStallsLengthenBounds lets the host stall, once or often, while something takes too long. If
// the stalls explain the delay, the property is undecided, and otherwise it is violated. Stalls do
// not matter if nothing takes too long.
func TestStallsLengthenBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const ms = 0.001
	for _, l := range lateHistories {
		judgeHistory := func(duration float64, stalls []float64) verdict.Outcome {
			at, text := l.since+duration*0.01, l.history(duration)
			for _, s := range stalls {
				text += fmt.Sprintf("\n%f nemesis begin stall node=machine\n%f nemesis end stall node=machine", at, at+s)
				at += s + 10e-6
			}
			r := newRecord(parseHistory(t, text))
			if r.Defect != "" {
				t.Fatalf("%s: %s", l.name, r.Defect)
			}
			return judge(r, l.property).Outcome
		}
		for range 60 {
			excess := float64(1+rnd.IntN(800)) * ms
			sum := excess
			var stalls []float64 // at least 26 ms each; shorter stalls are not recorded
			for n := 1 + rnd.IntN(20); n > 1 && sum > 60*ms; n-- {
				s := min(26*ms+rnd.Float64()*100*ms, sum-30*ms)
				stalls, sum = append(stalls, s), sum-s
			}
			stalls = append(stalls, sum)
			shorter := append([]float64{}, stalls...)
			shorter[len(shorter)-1] -= ms / 2
			longer := append([]float64{}, stalls...)
			longer[rnd.IntN(len(longer))] += 2 * ms
			duration := l.bound + excess
			for _, row := range []struct {
				took   float64
				stalls []float64
				want   verdict.Outcome
			}{
				{duration, nil, verdict.Violated},
				{duration, shorter, verdict.Violated},
				{duration, longer, verdict.Undecided},
			} {
				if got := judgeHistory(row.took, row.stalls); got != row.want {
					t.Errorf("%s: %v over the bound, and the host stalled for %v: %s, want %s", l.name,
						time.Duration((row.took-l.bound)*1e9), row.stalls, got, row.want)
				}
			}
			if l.property != verdict.ResourceSafety { // here the history has another violation
				if got := judgeHistory(l.bound-ms, longer); got == verdict.Violated || got == verdict.Undecided && l.property != verdict.ValidOnReturn {
					t.Errorf("%s: within the bound, and the host stalled for %v: %s", l.name, longer, got)
				}
			}
		}
	}
}

// TestStallsExcuseKeysLeftBehind lets a key stay on its node. The lock is to blame for not deleting
// it, unless the host was so slow that the release cannot have reached the node in time.
func TestStallsExcuseKeysLeftBehind(t *testing.T) {
	const kept = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=50ms retryMax=100ms slack=100ms rate=0.01 rounds=4 stampError=1ms life
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.012  c1-n1 ok set token=A ttl=10 sent=0.011 applied=0.0115 answered=ANSWERED
0.0115 n1 life set value=A by=c1 sent=0.011 command=set
0.070  c1 fail acquire session=c1/1
0.080  c2 invoke acquire session=c2/1
0.082  c2-n1 fail set token=B sent=0.081
0.900  c2-n1 fail set token=C sent=0.899
1.900  c2-n1 fail set token=D sent=1.899
2.900  c2-n1 fail set token=E sent=2.899
3.000  c2 fail acquire session=c2/1
30     harness end run`
	const stall = "\n%s nemesis begin stall node=machine\n%s nemesis end stall node=machine"
	for name, row := range map[string]struct {
		answered, from, to string
		want               verdict.Outcome
	}{
		"answered in time, and no stall":                        {"0.012", "", "", verdict.Violated},
		"answered in time, and a stall later":                   {"0.012", "0.5", "0.53", verdict.Violated},
		"answered late":                                         {"0.065", "", "", verdict.Undecided},
		"never answered":                                        {"0", "", "", verdict.Undecided},
		"a stall when the release was due":                      {"0.012", "0.02", "0.06", verdict.Undecided},
		"a stall from before the set until the release was due": {"0.012", "0.001", "0.04", verdict.Undecided},
	} {
		text := strings.Replace(kept, "ANSWERED", row.answered, 1)
		if row.from != "" {
			text += fmt.Sprintf(stall, row.from, row.to)
		}
		r := newRecord(parseHistory(t, text))
		if got := judge(r, verdict.FaultTolerance); got.Outcome != row.want || r.Defect != "" {
			t.Errorf("%s: %s, want %s: %s %s", name, got.Outcome, row.want, got.Because, r.Defect)
		}
	}
}
