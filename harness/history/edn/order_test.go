package edn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

// simulation is a lock and its processes, which log their operations in Jepsen's format.
type simulation struct {
	rnd    *rand.Rand
	honest bool          // the lock is granted only while no other process holds it, and only its holder can release it
	ttl    time.Duration // lease duration; 0: leases don't expire
	now    time.Duration

	holder   int // 0 means nobody
	leaseEnd time.Duration
	procs    []simProcess
	ops      []facts.Operation // logged operations
	lines    []string          // lines of the history, with %s for each :time
	times    []time.Duration
}

type simProcess struct {
	number   int // from 1
	isHolder bool
	op       string       // pending call, or ""
	outcome  history.Type // set when the call takes effect
	cause    string       // why the call failed
	opIndex  int          // the call's index in ops
}

// runSimulation runs a few processes for a few steps.
func runSimulation(rnd *rand.Rand, honest bool, ttl time.Duration) *simulation {
	s := &simulation{rnd: rnd, honest: honest, ttl: ttl}
	for n := range 1 + rnd.IntN(4) {
		s.procs = append(s.procs, simProcess{number: n + 1})
	}
	for range 4 + rnd.IntN(40) {
		s.now += time.Duration(1+rnd.IntN(4_000_000)) * time.Nanosecond
		s.step(&s.procs[rnd.IntN(len(s.procs))])
	}
	return s
}

// step makes a process call an operation, makes its pending operation take effect, or makes it
// return.
func (s *simulation) step(p *simProcess) {
	switch {
	case p.op == "":
		p.op = history.OpAcquire
		if p.isHolder || s.rnd.IntN(20) == 0 {
			p.op = history.OpRelease
		}
		p.opIndex = len(s.ops)
		s.ops = append(s.ops, facts.Operation{Call: s.log(p, history.Invoke)})
	case s.rnd.IntN(15) == 0:
		s.ops[p.opIndex].Return = s.log(p, history.Info)
		*p = simProcess{number: p.number + len(s.procs)}
	case p.outcome == "":
		s.apply(p)
	default:
		s.ops[p.opIndex].Return = s.log(p, p.outcome)
		p.isHolder = p.op == history.OpAcquire && p.outcome == history.OK || p.isHolder && p.outcome != history.OK && p.cause != "[:not-held]"
		p.op, p.outcome, p.cause = "", "", ""
	}
}

// apply makes a pending call take effect if that is possible now.
func (s *simulation) apply(p *simProcess) {
	free := s.holder == 0 || s.ttl > 0 && s.now >= s.leaseEnd
	misbehaves := !s.honest && s.rnd.IntN(4) == 0
	switch {
	case p.op == history.OpAcquire && (free || misbehaves):
		s.holder, s.leaseEnd, p.outcome = p.number, s.now+s.ttl, history.OK
	case p.op == history.OpAcquire && s.rnd.IntN(4) == 0:
		p.outcome = history.Fail
	case p.op == history.OpRelease && s.rnd.IntN(6) == 0: // the process may still hold the lock
		p.outcome, p.cause = history.Fail, ":refused"
	case p.op == history.OpRelease && (s.holder == p.number || misbehaves):
		s.holder, p.outcome = 0, history.OK
	case p.op == history.OpRelease:
		p.outcome, p.cause = history.Fail, "[:not-held]"
	}
}

// log logs an event and returns it.
func (s *simulation) log(p *simProcess, typ history.Type) *history.Event {
	cause := ""
	if typ == history.Fail && p.op == history.OpRelease {
		cause = ", :error " + p.cause
	}
	s.lines = append(s.lines, fmt.Sprintf("{:type :%s, :f :%s, :process %d%%s%s}", typ, p.op, p.number, cause))
	s.times = append(s.times, s.now)
	n := int64(len(s.lines))
	return &history.Event{N: n, T: n, Process: fmt.Sprint("p", p.number), Type: typ, Op: p.op, Key: onlyLock}
}

// text returns the history with its stamps rounded down to multiples of unit, or without stamps if
// unit is 0.
func (s *simulation) text(unit time.Duration) string {
	var b strings.Builder
	for i, line := range s.lines {
		stamp := ""
		if unit > 0 {
			stamp = fmt.Sprintf(", :time %d", s.times[i].Truncate(unit))
		}
		fmt.Fprintf(&b, line+"\n", stamp)
	}
	return b.String()
}

func (s *simulation) hasGrant() bool {
	return slices.ContainsFunc(s.ops, func(o facts.Operation) bool {
		return o.Call.Op == history.OpAcquire && o.Outcome() == history.OK
	})
}

// outcomes checks a history under each model (the mutexes and the lease), and returns the outcomes
// by model.
func outcomes(t *testing.T, text string, ttl time.Duration) map[string]verdict.Outcome {
	t.Helper()
	ops, _, err := Operations(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	all := map[string]verdict.Outcome{}
	for _, model := range mutex.Models() {
		all[model] = mutex.Check(model, ops).Results[0].Outcome
	}
	h, _, err := Read(strings.NewReader(text), ttl)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, r := range checker.Check(h, verdict.MutualExclusion, verdict.LeaseLinearizable).Results {
		if r.Outcome == verdict.NotExercised {
			r.Outcome = verdict.Holds
		}
		all[r.Property] = r.Outcome
	}
	return all
}

// Outcomes are the same as with exact stamps if the stamps are rounded to 1 ms or 10 ms, all equal,
// or missing. The history of an honest lock satisfies every model.
func TestOrderAgainstStamps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	seen := map[string]int{}
	for i := range histories.NumCases(2000) {
		s := runSimulation(rnd, i%4 == 0, 0)
		if !s.hasGrant() {
			continue
		}
		exactOutcomes := outcomes(t, s.text(1), 0)
		for _, unit := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Hour, 0} {
			for name, got := range outcomes(t, s.text(unit), 0) {
				if got != exactOutcomes[name] {
					t.Fatalf("%s is %s with exact stamps, but %s with stamps rounded to %v:\n%s", name, exactOutcomes[name], got, unit, s.text(1))
				}
			}
		}
		for name, got := range exactOutcomes {
			if s.honest && got != verdict.Holds {
				t.Fatalf("honest lock: %s is %s:\n%s", name, got, s.text(1))
			}
			seen[name+" "+string(got)]++
		}
		for _, model := range mutex.Models() { // check the operations without formatting and parsing them
			if want := mutex.Check(model, s.ops).Results[0].Outcome; want != exactOutcomes[model] {
				t.Fatalf("%s is %s, but %s after formatting and parsing:\n%s", model, want, exactOutcomes[model], s.text(1))
			}
		}
	}
	t.Log(seen)
	for _, name := range []string{mutex.Mutex, mutex.OwnerMutex, verdict.MutualExclusion, verdict.LeaseLinearizable} {
		if minCount := histories.NumCases(100); seen[name+" holds"] < minCount || seen[name+" violated"] < minCount {
			t.Errorf("%s: the comparison is one-sided: %v", name, seen)
		}
	}
}

// The history of a lock with leases is correct if it is checked with the actual TTL, but often
// incorrect if it is checked with a longer TTL, without a TTL, or as a mutex.
func TestLeasesAgainstTheirTTL(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 24))
	const ttl = 10 * time.Millisecond
	numViolated := map[string]int{}
	for range histories.NumCases(1500) {
		s := runSimulation(rnd, true, ttl)
		if !s.hasGrant() {
			continue
		}
		withTTL := outcomes(t, s.text(1), ttl)
		for _, name := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable} {
			if withTTL[name] != verdict.Holds {
				t.Fatalf("%s is %s:\n%s", name, withTTL[name], s.text(1))
			}
			if outcomes(t, s.text(1), 0)[name] == verdict.Violated {
				numViolated[name+" without a TTL"]++
			}
			if outcomes(t, s.text(1), 2*ttl)[name] == verdict.Violated {
				numViolated[name+" with a longer TTL"]++
			}
		}
		if withTTL[mutex.OwnerMutex] == verdict.Violated {
			numViolated[mutex.OwnerMutex]++
		}
	}
	t.Log(numViolated)
	if len(numViolated) != 5 || slices.ContainsFunc([]string{mutex.OwnerMutex, verdict.MutualExclusion + " with a longer TTL"}, func(name string) bool { return numViolated[name] < histories.NumCases(50) }) {
		t.Errorf("too few leases expire: %v", numViolated)
	}
}
