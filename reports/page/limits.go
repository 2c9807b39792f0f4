package page

import (
	"cmp"
	"fmt"
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// again is how to run it again, and where it ran.
func again(r outcome.Run) []term {
	p := r.History.Params
	var out []term
	add := func(title, text string, code bool) {
		if text != "" {
			out = append(out, term{Name: title, Text: plain(text), Code: code})
		}
	}
	m := r.Manifest
	if m == nil {
		add("Run it again", "This is a bare history: what it takes to run it again stands in the run.json that is not here.", false)
		add("Judge it again", "lockpick check history.jsonl", true)
		add("Seed", fmt.Sprint(p.Seed), false)
		return out
	}
	add("Run it again", cmp.Or(r.Outcome.Command, m.Command), true)
	add("Replay this very run", "lockpick replay .", true)
	add("Judge, draw again", "lockpick check . ; lockpick report .", true)
	add("Seed", fmt.Sprint(m.Seed), false)
	add("Backend", m.Backend, false)
	if len(m.Sets) > 0 {
		add("Set by hand", strings.Join(m.Sets, " "), true)
	}
	add("Started", m.Started.UTC().Format("2006-01-02 15:04:05.000 UTC"), false)
	add("lockpick", m.Version, false)
	add("Go", m.Go, false)
	add("Host", fmt.Sprintf("%s/%s, %s", m.OS, m.Arch, display.Plural(m.CPUs, "CPU")), false)
	return out
}

func limits(r outcome.Run, l listing) []term {
	p, v := r.History.Params, r.Verdict
	var out []term
	add := func(title, format string, args ...any) {
		out = append(out, term{Name: title, Text: plain(fmt.Sprintf(format, args...))})
	}
	add("One run", "This is one run with one seed. That nothing was violated means: nothing was found in this run under these faults. Other seeds show other interleavings: --seeds 100.")
	backendLimits(r, add)
	switch {
	case v.ShowsNothing():
		add("Nothing decided", "%s A run that shows nothing of what it was made for counts neither for the lock nor against it.", full(v.Assumption))
	case v.Assumption != "":
		add("Only violations are decided", "%s What was violated was violated all the same; of what was not, the run shows nothing.", full(v.Assumption))
	}
	for _, e := range r.History.Events {
		if e.Op == history.OpLack {
			add("Not in the simulation", "%s of %s, %s. Redis has it, and its answer would have been another one: --backend process.", name(e.Value), name(e.Node), name(e.Cause))
		}
	}
	if v.Cut != "" {
		add("The record is cut", "%s What came after it is unknown; what was violated before it stays violated.", full(v.Cut))
	}
	var untested []string
	for _, res := range v.Results {
		if res.Outcome == checker.NotExercised {
			untested = append(untested, res.Property)
		}
		if res.Outcome == checker.Undecided && v.Assumption == "" {
			add(res.Property+" is undecided", "%s", full(res.Because))
		}
	}
	if len(untested) > 0 {
		add("Never put to the test", "This run gave no occasion to violate %s: nothing is said of them here.", display.List(untested))
	}
	if p.Resource == "" {
		add("No resource", "The history tells of no protected resource, so what the lock is for could not be judged.")
	}
	if v.Second == checker.Undecided && v.Assumption == "" {
		add("The second judge", "porcupine was not asked about the whole record, or it is too long for its search; it was asked about what was found to be violated.")
	}
	for _, why := range r.Outcome.Retried {
		add("An earlier try did not count", "%s", full(why))
	}
	if m := r.Manifest; m != nil && len(m.Sets) > 0 {
		add("Other settings", "Settings were changed on the command line, so the violations and numbers that the scenario expects no longer apply: %s.", strings.Join(m.Sets, " "))
	}
	if r.Manifest == nil {
		add("No manifest", "This is a bare history. What its scenario expected is not known; it is held against what every lock should hold to.")
	}
	if l.Left > 0 {
		add("Not on this page", "%s of %s have no row here. The history has all of them, event N in line N.", display.Plural(l.Left, "event"), display.Grouped(l.All))
	}
	return out
}

func backendLimits(r outcome.Run, add func(title, format string, args ...any)) {
	switch backend := r.History.Params.Backend; backend {
	case "sim":
		add("Simulated", "Network, nodes, disks and time were simulated. The clients and the lock's code were real; what a real redis-server, kernel or network does besides what is modelled is not seen: --backend process.")
	case "":
		add("Where it ran", "The history does not say where it was made.")
	default:
		add("Real, on one machine", "The nodes were real servers on one machine, over its loopback device. The same seed gives the same plan, not the same interleaving: what a race missed this time may come the next time.")
		if m := r.Manifest; m != nil {
			add("Scaled", "On real backends durations are scaled (--scale); the lock's TTL was %s here. Margins that a machine takes in fixed time, such as scheduling, weigh more in short leases.", display.Span(int64(m.Scenario.Lock.TTL)))
		}
	}
}
