package main

import (
	"strings"
	"unicode/utf8"

	"lockpick/checker"
	"lockpick/harness/scenario"
)

// topics are help pages that belong to no command.
var topics = []struct{ name, short, text string }{
	{"exit-codes", "what the exit code says", `0    everything came out as expected
1    something did not: a property that should hold was violated, or an expected
     violation did not come, or came for another reason
2    undecided, and nothing worse: a fault did not take effect or hit nothing, nobody
     acquired, a property that was to hold was never put to the test, the lock asked
     for what the simulation does not know, or somebody else hit a process in each try
3    a backend or a client program could not do its part, a container of --nodes
     is not there or does not do; the machine had no room, open files, processes
     or memory left; a simulated run took longer than --timeout; or everything, or
     something that --require asks for, was skipped
64   wrong usage, or a bad scenario or history file
70   a bug in lockpick
130  interrupted, as by Ctrl-C, SIGTERM or a closed terminal; what was written until then
     is kept
134  aborted (SIGABRT): lockpick itself had no memory left or met with a bug that Go's
     runtime ends, or was sent SIGQUIT; its stacks are on standard error

Several at once: 70, 1, 3, 2, 0, whichever comes first.
"go run" turns every code but 0 into 1: build the binary to see them. Where there
is too little memory for Go's runtime to begin, it exits with 2 by itself, and prints
nothing but "fatal error" on standard error.`},
	{"files", "what a run leaves on disk", `store/NAME+VARIANT/TIME-BACKEND-SEED/   one run; TIME is UTC
    run.json         the scenario with all values resolved, seed, versions, the
                     command that runs it again, the image that containers ran
    history.jsonl    the facts: one event for each line, the first with the
                     parameters of the run
    verdict.json     each property: holds, violated, undecided or not exercised,
                     because, cause, and the numbers of the events that prove it
    outcome.json     what was expected of each property and what came; this and
                     verdict.json field by field: lockpick help verdict-file
    report.html      all of it on one page for a browser, without a network: the verdict,
                     what happened, faults, numbers, the history, how to run it again
    sequence.svg     the run as a sequence diagram; sequence.txt is the same for a
                     terminal, sequence.mmd for issues and summaries (Mermaid)
    figures/         holders, latency, quantiles, rate, clocks: SVG, and after
                     "lockpick report" PNG, too
    junit.xml        the outcome for CI; run --junit FILE writes one of all runs
    history.edn      the lock's operations and the faults, for Jepsen's tools; a lease
                     that lapsed is a release
    trace.json       the run for ui.perfetto.dev or chrome://tracing
    porcupine.html   where the lock's answers were wrong: what porcupine, the second
                     judge, says of them; a page for a browser, without a network
store/NAME+VARIANT/latest               a link to the newest of them
store/lockpick-stack-NAME-SEED-….txt    where a simulated run was that took too long, or
                                        what Go's runtime said when one ended its process
store/suites/TIME/                      one "lockpick run" of several scenarios
    suite.html       the safety report: what was expected and what came, cures, and
                     whose claims held; suite.md is the same in Markdown
    seeds-NAME.svg   of many seeds, which came out how; rates-PROPERTY.svg: how often
                     a property was violated
    junit.xml        a case for each property of each scenario; one that no run put
                     to the test is skipped
    outcome.json     all outcomes (of many seeds their sums, and the first that were
                     not as expected), versions, seeds; "lockpick report" draws the
                     others again from it. Directories in it are relative to its own
store/suites/latest                     a link to the newest of them
store/index.html                        suites and runs, written anew after each run

The store is ./store, or $LOCKPICK_STORE, or --store. history.jsonl alone
suffices for "lockpick check", and so does Jepsen's history.edn of a lock: lockpick
check --help tells of the models that it can be judged by.

A run may come from a stranger. Its run.json has to say what a scenario file could
have said; a history has at most 2 GiB, each of the others 8 to 64 MiB; a pipe or a
device in a file's place is refused. No link is followed out of a run's directory, a
suite's or the store: a report replaces a link that has its name.`},
	{"verdict-file", "what stands in verdict.json and outcome.json", verdictFile},
	{"faults", "what can go wrong on purpose", faults()},
	{"scenario-format", "how to write a scenario", scenarioFormat},
	{"properties", "what is checked", `mutual-exclusion   Did two clients believe, each by its own clock, that they held
                   the lock at one instant? Violated when the belief windows of
                   two sessions of one key overlap. A window runs from the return
                   of the acquire to the call of the release or to the deadline,
                   whichever is first.
lease-linearizable Could one lease lock have given these answers? Violated when
                   two sessions must both have held, whatever the unknown
                   outcomes were, or one is told "not held" while nothing could
                   have ended its lease. Where a scenario doesn't name it, it is
                   expected to come out as mutual-exclusion does.
resource-safety    Did the protected resource come to harm? Lost update,
                   interleaving, an acknowledged write that is missing, a refused
                   one that is there. The class says whose fault it is:
                   lock-broken, overrun (a holder that was late), fence-broken.
fencing-order      Do the fencing tokens rise, and does the resource go by them?
                   Violated when two acquires get one token; when an earlier
                   holder's is higher; when the resource accepts a token below one
                   that it had accepted, or refuses one that isn't below; and when
                   it refuses the valid holder because of an earlier one's token.
deadlock-freedom   After a holder's death, or a cut or pause that outlasts its lease,
                   is the lock free again in time?
fault-tolerance    While a majority of the nodes is up, can it be had? Violated when
                   nobody holds it or may hold it, somebody who reaches a majority
                   tries all the time, and nobody acquires in ten rounds of a node
                   time-out and the longest retry delay. A lock that isn't free is
                   not one that fails.
bounded-hold       Can one client keep the lock for ever by extending it? Violated
                   when one hold has more extensions, or lasts longer, than the
                   scenario's limits say, whatever the lock itself allows.
valid-on-return    Did an acquire return a lock that was past its deadline already,
                   by the client's own clock?

Each has four outcomes: holds, violated, undecided, not exercised. Before any of them
come the assumptions: a record that is malformed, or a run in which nobody acquired, a
planned fault did not take effect or hit nothing, or the lock asked for what the
simulation does not know, is undecided. "Holds" means: no violation was found in this
run under these faults.

"Not exercised" means: nor was there an occasion for one, and nothing is known. Occasions
are, of
  mutual-exclusion    acquires that were under way while another session was believed in,
                      or failed less than a TTL before another client was
  lease-linearizable  acquires that were under way while another session must have held,
                      and answers to extensions and releases
  resource-safety     writes where another client works, too
  fencing-order       tokens, and the resource's answers, that come after another's
  valid-on-return     grants with a deadline
  deadlock-freedom    losses of a holder while another waits
  fault-tolerance     spans in which the lock was free, available and wanted
  bounded-hold        holds that were extended
A scenario that names a property with "holds" must put it to the test, or the run is
undecided. What is left to the dice (a drawn plan), and vacuous: allowed, need not; rates
are over the seeds that did.

On a real backend the machine itself may stand still for a while, as a virtual one
does whose processor others use. The harness watches for that and records it as a
fault that nobody planned: stall machine. Nobody is held to what he was to do in
time meanwhile, and where that leaves nothing to judge, deadlock-freedom and
fault-tolerance are undecided. Where it made a lease end or a step of the plan late, or
lies within what a witness shows, an expected violation that was missed or has another
cause is undecided, and so is one that nobody expected of what has to be done in time.
An unexpected violation of mutual-exclusion, lease-linearizable or fencing-order stays.

What somebody else does to a process of the run is recorded as well, as a kill, a pause
or a go-on (the end of a planned pause) with step -1: kill -9, SIGSTOP, docker kill, an
out-of-memory kill, whatever hits a node, a replica, a sentinel, the resource, a client or
the container of the links. Such a run is undecided whatever came of it. On real backends
it is discarded and tried again, up to five times; where each try was hit, the exit code
is 2, or 3 if the run could not be ended, and the reason is said.`},
}

var scenarioFormat = `A scenario is one YAML file. "lockpick show NAME" prints one to copy.

name: my-scenario
claim: what the run shows, in one plain sentence
source: where the claim comes from
debate: {kleppmann: affirms}  # or denies; also antirez, redis (its documentation): whose claim it is
tags: [ci]
topology: {nodes: 5, persistence: none}   # addresses: [n1, n1, n3] is what the lock is told, if that is wrong
                              # image: redis:7 is what nodes run in containers (--backend docker)
lock: {kind: redlock, ttl: 10s, drift: 1%, timeout: 50ms, retry: 50ms..250ms}
clients: 2                    # or a map: {c1: {reach: [n1, n2], hold: 8s, cycles: 1},
                              #            c2: {start: {client: c1, event: acquired}}}
workload: {kind: read-modify-write, fence: none, think: 50ms..500ms, hold: 100ms..2s, cycles: 3}
                              # extend: 3s extends the lock every 3 s of the hold
plan:
  - when: {client: c1, point: between-check-and-write, nth: 2}
    fault: {kind: pause, targets: [c1], for: 15s}
limits: {extensions: 5, hold: 40s}   # of one hold; bounded-hold is judged by them
expect:
  mutual-exclusion: holds
  resource-safety: {violated: overrun}
  numbers: {grants: '>= 3'}    # or '< 0.5 * fenced', or '> base': against another variant
variants:
  fenced: {set: {lock.fence: true, workload.fence: token}, expect: {resource-safety: holds, numbers: {grants: '>= 0.5 * base'}}}

What sets a step off (when):
  {at: 3s}                                        at a time
  {client: c1, event: acquired, nth: 1, after: 1s}  soon after an event
  {client: c1, point: after-acquire, nth: 1}      exactly: the client waits there
  {link: c1-n3, message: set, of: reply, nth: 1}  exactly: the message waits there

All but a time may have before: 20s; what comes later sets nothing off, and need not come.
Instead of steps, a plan can be drawn by each seed (help faults):
  plan: {random: {faults: [pause, kill, cut], every: 1s..5s, lasts: 10ms..5s, safety: 60%}}

Points: during-acquire, after-acquire, between-check-and-write, before-release.
Durations are those of the simulation; on real backends they are scaled (--scale).
A safety property that is not listed under expect must hold.
exact: true is a scenario in which things must fall on one microsecond: simulation only.
` + wrapped(0, 0, "What one run may have at most: "+strings.Join(scenario.Bounds(), "; ")+". More is refused where it stands, and a run "+
	"that records more events is stopped there, undecided. What is scaled is held to the same bounds. FILE is a regular file of at most a megabyte: no pipe, no device.") + `
Numbers that can be expected: ` + numbers()

func numbers() string {
	return wrapped(len("expected: "), 0, strings.Join(checker.Numbers(), ", ")+".")
}

// helpWidth is how wide help is.
const helpWidth = 84

// wrapped breaks a text into lines, the first of which begins at one column and the
// others at another.
func wrapped(first, others int, text string) string {
	var b strings.Builder
	at := first
	for i, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			at += n
		case at+1+n > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", others))
			at = others + n
		default:
			b.WriteString(" ")
			at += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
