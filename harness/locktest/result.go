package locktest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/scenario"
	"lockpick/reports/sequence"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// report logs a subtest's result. It fails the test if a property was violated or if the run failed,
// and skips it if the run was inconclusive.
func (r *run) report(t *testing.T, c choice, o outcome.Outcome, output string) {
	t.Helper()
	if o.Code == outcome.ExitOK {
		t.Log(strings.Join(append(formatJudgments(o.Judgements, outcome.Judgement.Reportable), lockOutput(output)...), "\n"))
		return
	}
	b := r.readBehavior(c, o)
	if o.Code == outcome.ExitUndecided && o.Error == "" && b.hang == "" && !o.Verdict.Unplanned {
		parts := append([]string{explainInconclusive(c, o, b)}, lockOutput(output)...)
		if keepsArtifacts() {
			parts = append(parts, keepArtifacts(t, o.Dir))
		}
		t.Skip(strings.Join(parts, "\n\n"))
	}
	parts := []string{fmt.Sprintf("%s, seed %d: %s", o.Scenario, o.Seed, c.Claim)}
	parts = append(parts, formatJudgments(o.Judgements, func(j outcome.Judgement) bool { return !j.AsExpected && !j.Unresolved() })...)
	switch {
	case o.Error != "":
		parts = append(parts, explainError(o, goroutineStacks(output, packageOf(r.kind.New))))
	case o.Verdict.Unplanned:
		parts = append(parts, o.Verdict.Assumption)
	default:
		parts = append(slices.Concat(parts, b.describe(), r.diagram(o)), lockOutput(output)...)
	}
	for _, reason := range o.RetryReasons {
		parts = append(parts, "retried after: "+reason)
	}
	t.Errorf("\n%s\n\nrun again: %s\n%s", strings.Join(parts, "\n\n"), o.Command, keepArtifacts(t, o.Dir))
}

// count counts a finished subtest. It must be deferred, because skipping a test ends its goroutine.
func (r *run) count(t *testing.T) {
	if r.finished.Add(1); t.Skipped() {
		r.skipped.Add(1)
	}
}

// requireExercise fails the test if all of its subtests were skipped, unless the user selected some
// of them with -run.
func (r *run) requireExercise(t *testing.T, numSubtests int) {
	if n := int32(numSubtests); r.finished.Load() == n && r.skipped.Load() == n {
		t.Errorf("all %d subtests were skipped, so the lock was never tested; with -v, each of them prints the reason", numSubtests)
	}
}

// explainInconclusive explains why a run says nothing about the lock.
func explainInconclusive(c choice, o outcome.Outcome, b behavior) string {
	because := "the run shows nothing"
	if i := slices.IndexFunc(o.Judgements, func(j outcome.Judgement) bool { return !j.AsExpected }); i >= 0 {
		j := o.Judgements[i]
		because = strings.TrimPrefix(j.Because, "the run is vacuous: ")
		if j.Got == verdict.NotExercised {
			because = j.Property + " was not exercised: " + because
		}
	}
	because = strings.Replace(because, "run it with --backend process", "use real servers: Options.Backend", 1) // that is a flag of lockpick run
	if b.gaveUp == 0 && slices.ContainsFunc(c.Plan, scenario.IsDuringAcquire) {
		because = fmt.Sprintf("this lock does not read Env.Now twice in an acquire (set OwnTime if it calls time.Now), so it never reaches the point %s: %s", client.DuringAcquire, because)
	}
	return strings.Join(append(b.describe(), "inconclusive: "+because), "\n")
}

// behavior is what a history shows of the lock besides violations.
type behavior struct {
	gaveUp   int            // acquires that returned an error although their clients still wanted the lock
	tries    int            // most tries of one of these acquires, or 0 if none of them asked a node
	messages map[string]int // how often each error occurred
	noTries  bool           // no acquire asked a node for the lock, so perhaps a 0 has been misunderstood
	hang     string         // a call that had not returned at the end, or ""
	ttl      time.Duration  // the keys' TTL if it isn't the scenario's, or 0
	wantTTL  time.Duration  // the scenario's TTL
}

// maxMessages limits the number of different errors that are shown.
const maxMessages = 3

// describe returns a paragraph about each aspect that the user should know.
func (b behavior) describe() (out []string) {
	if b.hang != "" {
		out = append(out, b.hang)
	}
	if b.gaveUp > 0 {
		out = append(out, b.describeErrors())
	}
	if b.ttl != 0 {
		out = append(out, fmt.Sprintf("The lock set its keys with a TTL of %v, but here a TTL of %v is expected. A lock with a TTL of its own needs Options.TTL.", b.ttl, b.wantTTL))
	}
	return out
}

func (b behavior) describeErrors() string {
	text := "Acquire gave up"
	switch {
	case b.tries > 1:
		text += fmt.Sprintf(" after %d tries", b.tries)
	case b.tries == 1:
		text += " after 1 try"
	default:
		text += " without asking a node for the lock"
	}
	messages := slices.SortedFunc(maps.Keys(b.messages), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.messages[y], b.messages[x]), strings.Compare(x, y))
	})
	for _, m := range messages[:min(len(messages), maxMessages)] {
		text += fmt.Sprintf("\n  %d×  %s", b.messages[m], shorten(strings.ReplaceAll(m, "\n", "; ")))
	}
	if n := len(messages) - maxMessages; n > 0 {
		text += fmt.Sprintf("\n  and %d more", n)
	}
	if b.noTries {
		text += "\nIf the lock passes Settings.Tries to a library: 0 means no limit here, but may mean no tries there, as in redsync.WithTries(0). Env.ForLibrary converts it."
	}
	return text
}

// readBehavior reads a stored run.
func (r *run) readBehavior(c choice, o outcome.Outcome) (b behavior) {
	s, err := campaign.OpenStored(o.Dir, r.knownLocks)
	if err != nil {
		return b
	}
	f := facts.Read(s.History)
	tries := map[*facts.Session]int{}
	for _, l := range f.AttemptsByLock() {
		for _, a := range l.Attempts {
			tries[a.Session]++
		}
	}
	b.messages = map[string]int{}
	b.noTries = len(tries) == 0 && len(f.UnsupportedCommands) == 0
	for s := range f.Sessions() {
		if ret := s.Acquire.Return; ret != nil && ret.Type == history.Fail && wantsLock(c.Scenario, s) {
			b.gaveUp++
			b.messages[ret.Cause]++
			b.tries = max(b.tries, tries[s])
		}
		b.hang = cmp.Or(b.hang, describeHang(f, s))
	}
	if ttl := medianTTL(f); ttl != 0 && (ttl-f.Params.TTL).Abs() > f.Params.TTL/100+ttlTolerance {
		b.ttl, b.wantTTL = ttl.Round(ttlTolerance), f.Params.TTL
	}
	return b
}

// ttlTolerance is how much later a node may set a key than the history says.
const ttlTolerance = 20 * time.Millisecond

// medianTTL returns the median TTL of the keys that clients set, or 0 if it is unknown because keys
// had no expiry, clients have different TTLs, or clocks were wrong.
func medianTTL(f *facts.Facts) time.Duration {
	if f.Params.Epoch == 0 || len(f.Params.TTLs) > 0 || slices.ContainsFunc(f.Faults, (*facts.Fault).ChangesClock) {
		return 0
	}
	var all []time.Duration
	for _, e := range f.Events {
		if l := e.Life; l != nil && l.Kind == history.KeySet && l.Expiry != 0 {
			all = append(all, time.Duration(l.Expiry-f.Params.Epoch-e.T))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// wantsLock reports whether a client still wanted the lock when its acquire returned: it had not
// canceled the acquire, and its time was not up.
func wantsLock(s scenario.Scenario, x *facts.Session) bool {
	cancelAfter := s.Workload.CancelAfter
	for _, c := range s.Clients {
		if c.Name == x.Client() && c.CancelAfter != nil {
			cancelAfter = *c.CancelAfter
		}
	}
	isCanceled := cancelAfter > 0 && x.EndedAt-x.CalledAt >= int64(cancelAfter)*9/10 // a client's clock may run fast
	return !isCanceled && x.EndedAt < int64(cmp.Or(s.Workload.For, s.Limit))
}

// describeHang describes a call of a session that had not returned at the end although its client was neither
// killed nor paused, or returns "".
func describeHang(f *facts.Facts, s *facts.Session) string {
	if _, killed := f.GoneAt[s.Client()]; killed {
		return ""
	}
	for _, op := range append([]facts.Operation{s.Acquire}, slices.Collect(s.Actions())...) {
		isPaused := slices.ContainsFunc(f.Faults, func(x *facts.Fault) bool {
			return x.Target == s.Client() && (x.End == nil || x.End.T >= op.Call.T)
		})
		isLockCall := slices.Contains([]string{history.OpAcquire, history.OpExtend, history.OpRelease}, op.Call.Op)
		if op.Return == nil && isLockCall && !isPaused {
			return fmt.Sprintf("%s's %s, called at %s, had not returned when the run ended, although its context was canceled", s.Client(), op.Call.Op, facts.Seconds(op.Call.T))
		}
	}
	return ""
}

// formatJudgments formats the judgments that isWanted selects. Consecutive judgments with the same
// reason are grouped.
func formatJudgments(all []outcome.Judgement, isWanted func(outcome.Judgement) bool) (out []string) {
	var reason string
	for _, j := range all {
		if !isWanted(j) || j.ImpliedBy != "" && j.AsExpected {
			continue
		}
		if n := len(out); n > 0 && j.Because == reason {
			out[n-1] = strings.TrimSuffix(out[n-1], ": "+reason) + "\n"
		} else {
			out = append(out, "")
		}
		reason = j.Because
		out[len(out)-1] += j.String() + ": " + reason
	}
	return out
}

// maxErrorLen limits the length of an error's text, because the text may contain an error with a
// stack for each client.
const maxErrorLen = 2000

func shorten(text string) string {
	if len(text) > maxErrorLen {
		return text[:maxErrorLen] + " …"
	}
	return text
}

// explainError explains why a run has no result, and includes the stacks of the lock's goroutines.
func explainError(o outcome.Outcome, stackText string) string {
	reason, _, _ := strings.Cut(o.Error, "; its stacks are in ")
	reason = shorten(reason)
	if strings.HasPrefix(reason, campaign.TimeoutMessage) {
		reason += "\nVirtual time advances while all goroutines wait for each other, for timers or for nodes. It stops while a goroutine computes,\n" +
			"or waits for something outside the simulation: a connection not made with Env.Dial, or a channel or mutex created before New."
	}
	return strings.TrimSpace(reason + "\n\n" + stackText)
}

// diagram draws the unexpected violation, or the whole run if there is none.
func (r *run) diagram(o outcome.Outcome) []string {
	s, err := campaign.OpenStored(o.Dir, r.knownLocks)
	if err != nil {
		return []string{"no diagram: " + err.Error()}
	}
	v := checker.Check(s.History)
	for _, j := range o.Judgements {
		if x := v.Result(j.Property); x != nil && !j.AsExpected && x.Outcome == verdict.Violated && x.Witness != nil {
			return []string{drawDiagram(sequence.ForResult(s.History, x))}
		}
	}
	return []string{drawDiagram(sequence.ForVerdict(s.History, v))}
}

func drawDiagram(d sequence.Diagram) string {
	return strings.TrimSpace(sequence.Text(d, sequence.DefaultWidth))
}

// maxOutput limits how much of the lock's output is shown. The end is the most relevant part.
const maxOutput = 4000

func lockOutput(output string) []string {
	if output = strings.TrimSpace(output); output == "" {
		return nil
	}
	return []string{"Output of the lock:\n" + output[max(0, len(output)-maxOutput):]}
}

// keepsArtifacts reports whether the test runs with -artifacts.
func keepsArtifacts() bool {
	f := flag.Lookup("test.artifacts")
	return f != nil && f.Value.String() == "true"
}

// keepArtifacts copies a run's folder to the test's artifacts if the test runs with -artifacts. It
// returns a message for the user.
func keepArtifacts(t *testing.T, dir string) string {
	t.Helper()
	if dir == "" {
		return ""
	}
	if !keepsArtifacts() {
		return "use -artifacts to save the history and report.html"
	}
	target := t.ArtifactDir()
	if err := os.CopyFS(target, os.DirFS(dir)); err != nil {
		return "failed to save the history: " + err.Error()
	}
	return "history and report.html: " + target
}
