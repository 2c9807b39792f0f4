package campaign

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/scenarios/outcome"
)

// hazard is something that can happen to a deployment, and whose size can be varied.
type hazard struct {
	name, title string
	subject     string // completes "the lock survives …"
	noun        string // what the size measures
	unit        outcome.BoundUnit
	lessIsWorse bool // lower values are worse, as for a node's downtime
	// models lists the kinds of faults in scenarios that belong to the hazard, and random those
	// that random plans draw for it, as named in scenario files.
	models, random []string
	// limit returns the worst value that can happen, and assumed describes it.
	limit   func(conditions) float64
	assumed func(c conditions, limit float64) string
	// span returns the range of values to try and the search resolution.
	span func(c conditions, limit float64) (low, high, step float64)
	// unfenced contains the experiments that decide whether data is at risk without fencing tokens,
	// and fenced those with tokens.
	unfenced, fenced []experiment
	changes          []changeFunc // in the order in which they are tried
	advice           string       // what helps if no change of settings does
}

// experiment is a scenario with a fault of variable size.
type experiment struct {
	property string
	// base returns the scenario without the fault, and plan returns the fault, both as text for a
	// scenario file.
	base func(conditions) string
	plan func(c conditions, value float64) string
	// edge predicts where the property breaks, or returns nil if it should never break. The function
	// is nil if nothing is predicted.
	edge func(conditions) *outcome.PredictedEdge
}

// conditions are the deployment under test, the environment that it must survive, and the latencies
// that predictions assume.
type conditions struct {
	outcome.Deployment
	Environment
	OneWay client.Range // message latency in one direction
	Coarse bool         // on real servers, where times are inexact
}

// Environment says how large the hazards are that a deployment must survive.
type Environment struct {
	Pause      time.Duration
	ClockJump  time.Duration
	ClockDrift float64 // share by which a clock runs fast
	Delay      time.Duration
	// Hazards names the hazards that can happen; nil means all.
	Hazards []string
}

// DefaultEnvironment is the environment if the user says nothing about it.
var DefaultEnvironment = Environment{Pause: 5 * time.Second, ClockJump: time.Second, ClockDrift: 0.01, Delay: time.Second}

// Assumes reports whether a hazard can happen.
func (e Environment) Assumes(name string) bool {
	return e.Hazards == nil || slices.Contains(e.Hazards, name)
}

// Names of the hazards that have a size, which the user can set.
const (
	HazardPause = "pause"
	HazardJump  = "clock-jump"
	HazardDrift = "clock-drift"
	HazardDelay = "slow-network"
)

// hazards lists all hazards in the order of reports. The predictions are derived from the
// specification (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): a lease
// is valid for the TTL minus the drift allowance, starting when the client begins its attempt.
var hazards = []hazard{
	{
		name: HazardPause, title: "Paused holder", subject: "pauses of the holder", noun: "pause", unit: outcome.UnitSeconds,
		models: []string{"pause", "gc", "starve"}, random: []string{"pause-client", "gc"},
		limit: func(c conditions) float64 { return c.Pause.Seconds() }, assumed: upTo(outcome.UnitSeconds), span: aroundTTL,
		unfenced: []experiment{{verdict.ResourceSafety, contested(holdNone, false), pausePlan, lateWriteEdge}},
		fenced:   []experiment{{verdict.ResourceSafety, contested(holdNone, true), pausePlan, neverBreaks}},
		changes:  []changeFunc{addFence, raiseTTL, useHardened},
		advice:   "fencing tokens, with any lock that issues them",
	},
	{
		name: HazardJump, title: "Clock jump", subject: "clock jumps of a node", noun: "jump", unit: outcome.UnitSeconds,
		models: []string{"clock-jump", "clock-strobe"}, random: []string{"clock-jump-node"},
		limit: func(c conditions) float64 { return c.ClockJump.Seconds() }, assumed: upTo(outcome.UnitSeconds), span: aroundMargin,
		unfenced: []experiment{{verdict.MutualExclusion, contested(holdPastLease, false), jumpPlan, jumpEdge}},
		fenced:   []experiment{{verdict.ResourceSafety, contested(holdToLease, true), jumpPlan, neverBreaks}},
		changes:  []changeFunc{addFence, raiseDrift, raiseTTL, useHardened},
		advice:   "clocks that are slewed and never set, or a store with consensus and fencing tokens",
	},
	{
		name: HazardDrift, title: "Clock drift", subject: "clock drift", noun: "drift", unit: outcome.UnitPercent,
		models: []string{"clock-rate", "clock-slew"}, random: []string{"clock-rate-node"},
		limit: func(c conditions) float64 { return 100 * c.ClockDrift }, assumed: upTo(outcome.UnitPercent), span: aroundDrift,
		unfenced: []experiment{{verdict.MutualExclusion, contested(holdPastLease, false), driftPlan, driftEdge}},
		fenced:   []experiment{{verdict.ResourceSafety, contested(holdToLease, true), driftPlan, neverBreaks}},
		changes:  []changeFunc{raiseDrift, addFence, useHardened},
		advice:   "a larger drift allowance in the lock",
	},
	{
		name: "restart", title: "Restart without data", subject: "crashes of nodes", noun: "downtime", unit: outcome.UnitSeconds, lessIsWorse: true,
		models: []string{"kill", "shutdown"}, random: []string{"kill-node"},
		limit: conditions.downtime, assumed: restartDelay, span: downtimes,
		unfenced: []experiment{{verdict.MutualExclusion, contested(holdPastLease, false), restartPlan, restartEdge}},
		fenced:   []experiment{{verdict.ResourceSafety, contested(holdToLease, true), restartPlan, nil}},
		changes:  []changeFunc{syncAlways, raiseRestartDelay, useHardened},
		advice:   "a restart delay of at least the TTL",
	},
	{
		name: "power-loss", title: "Power loss", subject: "power losses of nodes", noun: "lock age", unit: outcome.UnitSeconds, lessIsWorse: true,
		models: []string{"power-loss", "slow-disk", "full-disk"}, random: []string{"power-loss"},
		limit:   func(c conditions) float64 { low, _, _ := lockAges(c, 0); return low },
		assumed: func(conditions, float64) string { return "any lock age" }, span: lockAges,
		unfenced: []experiment{{verdict.MutualExclusion, afterSync(holdPastLease, false), powerLossPlan, powerLossEdge}},
		fenced:   []experiment{{verdict.ResourceSafety, afterSync(holdToLease, true), powerLossPlan, nil}},
		changes:  []changeFunc{syncAlways, raiseRestartDelay, useHardened},
		advice:   "a restart delay of at least the TTL, or nodes that sync each write",
	},
	{
		name: HazardDelay, title: "Slow network", subject: "delays of messages", noun: "delay", unit: outcome.UnitSeconds,
		models: []string{"delay", "throttle", "hold"}, random: []string{"delay", "hold"},
		limit: func(c conditions) float64 { return c.Delay.Seconds() }, assumed: upTo(outcome.UnitSeconds), span: aroundTTL,
		unfenced: []experiment{
			{verdict.ResourceSafety, contested(holdNone, false), delayWritePlan, delayedWriteEdge},
			{verdict.MutualExclusion, contested(holdPastLease, false), delaySetsPlan, neverBreaks},
		},
		fenced:  []experiment{{verdict.ResourceSafety, contested(holdNone, true), delayWritePlan, neverBreaks}},
		changes: []changeFunc{addFence, raiseTTL, useHardened},
		advice:  "fencing tokens, with any lock that issues them",
	},
	{
		name: "lost-reply", title: "Lost reply", subject: "lost replies", noun: "nodes", unit: outcome.UnitNodes,
		models: []string{"drop", "lose"}, random: []string{"drop", "lose"},
		limit: func(c conditions) float64 { return float64(c.Nodes) }, assumed: func(conditions, float64) string { return "any number" }, span: nodeCounts,
		unfenced: []experiment{{verdict.MutualExclusion, competing(false), loseReplyPlan, neverBreaks}},
		fenced:   []experiment{{verdict.ResourceSafety, competing(true), loseReplyPlan, neverBreaks}},
		changes:  []changeFunc{useHardened},
		advice:   "another lock: this one is wrong about who holds it",
	},
	{
		name: "fail-over", title: "Fail-over", subject: "promotions of replicas", noun: "nodes", unit: outcome.UnitNodes,
		models: []string{"failover"}, random: []string{"failover"},
		limit: func(c conditions) float64 { return float64(c.Nodes) }, assumed: func(conditions, float64) string { return "any number" }, span: nodeCounts,
		unfenced: []experiment{{verdict.MutualExclusion, replicated(holdPastLease, false), failoverPlan, sharedNodesEdge}},
		fenced:   []experiment{{verdict.ResourceSafety, replicated(holdToLease, true), failoverPlan, nil}},
		changes:  []changeFunc{addFence, useHardened},
		advice:   "independent nodes without replicas, or a store with consensus",
	},
	{
		name: "partition", title: "Partition", subject: "partitions of the holder from all nodes", noun: "length", unit: outcome.UnitSeconds,
		models: []string{"cut", "unplug"}, random: []string{"cut"},
		limit: func(c conditions) float64 { _, high, _ := partitionLengths(c, 0); return high }, assumed: func(conditions, float64) string { return "any length" }, span: partitionLengths,
		unfenced: []experiment{{verdict.MutualExclusion, contested(holdPastLease, false), partitionPlan, neverBreaks}},
		fenced:   []experiment{{verdict.ResourceSafety, contested(holdToLease, true), partitionPlan, neverBreaks}},
		changes:  []changeFunc{useHardened},
		advice:   "another lock: this one outlives its lease",
	},
}

// HazardNames returns the names of all hazards.
func HazardNames() (names []string) {
	for _, h := range hazards {
		names = append(names, h.name)
	}
	return names
}

func upTo(u outcome.BoundUnit) func(conditions, float64) string {
	return func(_ conditions, limit float64) string { return "up to " + u.Format(limit) }
}

func restartDelay(c conditions, _ float64) string { return fmt.Sprintf("downtime %v", c.RestartDelay) }

// noFault returns the value that means no fault.
func (h hazard) noFault() float64 {
	if h.lessIsWorse {
		return -1 // 0 is a fault: the node restarts at once
	}
	return 0
}

// experiments returns the experiments for the deployment.
func (h hazard) experiments(fence bool) []experiment {
	if fence {
		return h.fenced
	}
	return h.unfenced
}

// scenario returns a scenario for the reference lock that tests the given value and expects nothing
// of the lock.
func (h hazard) scenario(e experiment, c conditions, value float64, known scenario.KnownNames) (scenario.Scenario, error) {
	name := "assess-" + h.name
	text := fmt.Sprintf("name: %s\nclaim: The lock survives %s.\n%s", name, h.subject, e.base(c))
	if value != h.noFault() {
		text += "plan:\n" + e.plan(c, value)
	}
	return parseOne(name, text, known)
}

func parseOne(name, text string, known scenario.KnownNames) (scenario.Scenario, error) {
	all, err := scenario.Parse(name+".yaml", []byte(text), known)
	if err != nil {
		return scenario.Scenario{}, err
	}
	return all[0], nil
}

func (c conditions) quorum() int  { return c.Nodes/2 + 1 }
func (c conditions) ttl() float64 { return c.TTL.Seconds() }

// driftConstants lists the kinds that follow Redlock's arithmetic. Each value is what the kind
// subtracts from a lease in addition to the drift allowance. The specification's 2 ms compensate for the precision of expiry in Redis;
// redsync v4 has no such constant (mutex.go, calculation of until).
var driftConstants = map[string]time.Duration{"redlock": 2 * time.Millisecond, "hardened": 2 * time.Millisecond, "redsync": 0}

// predictable reports whether Redlock's arithmetic applies to the lock.
func (c conditions) predictable() bool {
	_, known := driftConstants[c.kind()]
	return known
}

func (c conditions) kind() string {
	kind, _, _ := strings.Cut(c.Lock, ":")
	return kind
}

func (c conditions) margin() float64 {
	constant, known := driftConstants[c.kind()]
	if !known {
		constant = 2 * time.Millisecond
	}
	return c.Drift*c.ttl() + constant.Seconds()
}

func (c conditions) lease() float64 { return c.ttl() - c.margin() }

// resolution is the precision of a search for a time, in seconds: 1/10,000 of the TTL, but at least
// 1 ms, because Redis expires keys in whole milliseconds. On real servers it is 1/20 of the TTL.
func (c conditions) resolution() float64 {
	if c.Coarse {
		return c.ttl() / 20
	}
	return max(0.001, math.Round(c.ttl()/10)/1000)
}

func aroundTTL(c conditions, limit float64) (low, high, step float64) {
	return 0, 1.5 * max(limit, c.ttl()), c.resolution()
}

func aroundMargin(c conditions, limit float64) (low, high, step float64) {
	return 0, max(1.5*limit, 4*c.margin()+0.2), c.resolution()
}

func aroundDrift(c conditions, limit float64) (low, high, step float64) {
	return 0, max(1.5*limit, 400*c.margin()/c.ttl()+2), 0.01
}

func nodeCounts(c conditions, _ float64) (low, high, step float64) { return 0, float64(c.Nodes), 1 }

func partitionLengths(c conditions, _ float64) (low, high, step float64) {
	return 0, 2 * c.ttl(), c.resolution()
}

// downtime returns the restart delay in seconds. A node that is down for longer than every lease
// makes no difference, except that the other client tries in vain for longer.
func (c conditions) downtime() float64 { return min(c.RestartDelay.Seconds(), c.longestDowntime()) }

func (c conditions) longestDowntime() float64 { return c.ttl() + min(0.2*c.ttl(), 2) }

func downtimes(c conditions, _ float64) (low, high, step float64) {
	return 0, c.longestDowntime(), c.resolution()
}

// lockAges returns how old the lock may be when the power fails. A disk that syncs once a second
// loses nothing older, and if the node is back after the lease, the age makes no difference.
func lockAges(c conditions, _ float64) (low, high, step float64) {
	high = min(c.lease(), max(c.lease()-c.downtime()+1, 0.1*c.lease()))
	if c.Persistence == scenario.PersistAlways || c.Persistence == "everysec" {
		high = min(3, 0.8*high)
	}
	return c.resolution(), high, c.resolution()
}

// faultDelay is how long after the grant a fault strikes. outage is the downtime of a node that
// restarts immediately.
const faultDelay, outage = 10 * time.Millisecond, 10 * time.Millisecond

// startLead is how long before the first client's lease ends the second client starts trying.
// Earlier attempts would only fail.
const startLead = 250 * time.Millisecond

// firstSync is when a node first syncs in a run with a power loss: just after its clock reaches a
// full second.
const firstSync = 5001 * time.Millisecond

// Timeout of a request to a node, and the wait between two attempts.
const nodeTimeout, retryMin, retryMax = 50 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond

// formatDuration formats seconds for a scenario file, rounded to microseconds.
func formatDuration(seconds float64) string {
	return fmt.Sprintf("%dus", int64(math.Round(seconds*1e6)))
}

// baseScenario returns everything but the plan. Client c1 acquires the lock at start and works for
// hold. Client c2 starts trying at start2.
func (c conditions) baseScenario(topology string, fence bool, start time.Duration, reach1, hold string, reach2, start2, hold2 string) string {
	fenceKind := "none"
	if fence {
		fenceKind = "token"
	}
	return fmt.Sprintf(`topology: {nodes: %d, %s}
lock: {kind: redlock, ttl: %v, drift: %g%%, timeout: %v, retry: %v..%v, fence: %t}
clients:
  c1: {reach: [%s], hold: %s, start: %v}
  c2: {reach: [%s], hold: %s, start: %s}
workload: {kind: read-modify-write, keys: 1, fence: %s, think: 0s, cycles: 1}
limit: %v
expect: {mutual-exclusion: any, resource-safety: any}
`, c.Nodes, topology, c.TTL, 100*c.Drift, nodeTimeout, retryMin, retryMax, fence, reach1, hold, start, reach2, hold2, start2, fenceKind,
		2*time.Minute+3*c.TTL+3*max(c.Pause, c.Delay, c.RestartDelay))
}

// contestedScenario returns a base scenario where each client reaches only a quorum, so the shared
// nodes decide who gets the lock. The second client starts shortly before the first one's lease
// ends.
func (c conditions) contestedScenario(topology string, fence bool, start time.Duration, hold func(conditions) string) string {
	start2 := start.Seconds() + max(c.lease()-startLead.Seconds(), c.lease()/2)
	return c.baseScenario(topology, fence, start, "first-quorum", hold(c), "last-quorum", formatDuration(start2), "0s")
}

func (c conditions) persistence() string { return fmt.Sprintf("persistence: %q", c.Persistence) }

func contested(hold func(conditions) string, fence bool) func(conditions) string {
	return func(c conditions) string { return c.contestedScenario(c.persistence(), fence, 0, hold) }
}

// afterSync is like contested, but the first client acquires the lock right after a sync, so that
// with fsync everysec the grant stays unsynced as long as possible.
func afterSync(hold func(conditions) string, fence bool) func(conditions) string {
	return func(c conditions) string {
		return c.contestedScenario(c.persistence(), fence, firstSync+faultDelay, hold)
	}
}

// replicated is like contested, but each node is a master with a replica.
func replicated(hold func(conditions) string, fence bool) func(conditions) string {
	return func(c conditions) string {
		return c.contestedScenario("persistence: none, replicas: 1", fence, time.Second, hold)
	}
}

// competing lets both clients reach all nodes and try at almost the same time.
func competing(fence bool) func(conditions) string {
	return func(c conditions) string {
		hold := formatDuration(c.lease() / 3)
		return c.baseScenario(c.persistence(), fence, 100*time.Millisecond, "all", hold, "all", "105ms", hold)
	}
}

// holdPastLease makes the first client work until after its lease ends. holdToLease makes it write
// just before that, and holdNone at once.
func holdPastLease(c conditions) string { return formatDuration(c.ttl() + min(1, 0.25*c.ttl())) }
func holdToLease(c conditions) string   { return formatDuration(c.lease() - 20*c.OneWay.Max.Seconds()) }
func holdNone(conditions) string        { return "0s" }

func planStep(when, fault string) string {
	return fmt.Sprintf("  - when: {%s}\n    fault: {%s}\n", when, fault)
}

var afterGrant = fmt.Sprintf("client: c1, event: acquired, after: %v", faultDelay)

func pausePlan(_ conditions, v float64) string {
	return planStep("client: c1, point: between-check-and-write, nth: 1", "kind: pause, targets: [c1], for: "+formatDuration(v))
}

func delaySetsPlan(_ conditions, v float64) string {
	return planStep("link: c1-first-quorum, message: set, of: request, nth: 1", "kind: hold, for: "+formatDuration(v))
}

func delayWritePlan(_ conditions, v float64) string {
	return planStep("link: c1-r1, message: write, of: request, nth: 1", "kind: hold, for: "+formatDuration(v))
}

func jumpPlan(_ conditions, v float64) string {
	return planStep(afterGrant, "kind: clock-jump, targets: [shared], by: "+formatDuration(v))
}

func driftPlan(_ conditions, v float64) string {
	return planStep("at: 0s", fmt.Sprintf("kind: clock-rate, targets: [shared], rate: %.6f", 1+v/100))
}

func restartPlan(_ conditions, v float64) string {
	return planStep(afterGrant, "kind: kill, targets: [shared], for: "+formatDuration(max(v, 1e-3)))
}

func partitionPlan(_ conditions, v float64) string {
	return planStep(afterGrant, "kind: cut, targets: [c1-first-quorum], mode: drop, for: "+formatDuration(v))
}

func loseReplyPlan(_ conditions, v float64) (steps string) {
	for i := range int(v) {
		steps += planStep(fmt.Sprintf("link: c1-n%d, message: set, of: reply, nth: 1", i+1), "kind: drop")
	}
	return steps
}

// failoverPlan replaces v nodes by replicas that miss the grant, beginning with the shared nodes.
func failoverPlan(c conditions, v float64) (steps string) {
	var nodes []string
	for i := range c.Nodes {
		nodes = append(nodes, fmt.Sprintf("n%d", 1+(c.Nodes-c.quorum()+i)%c.Nodes))
	}
	for _, n := range nodes[:int(v)] {
		steps += planStep("at: 500ms", "kind: cut, targets: ["+n+"-replica]")
		steps += planStep(afterGrant, "kind: failover, targets: ["+n+"]")
	}
	return steps
}

// powerLossPlan cuts the power of the shared nodes v seconds after the grant. It writes another key
// just before, because a power loss that loses no data tests nothing. A node without a disk loses as
// much in a crash.
func powerLossPlan(c conditions, v float64) string {
	at := func(age float64) string { return "client: c1, event: acquired, after: " + formatDuration(age) }
	duration := "for: " + formatDuration(max(c.downtime(), outage.Seconds()))
	if c.Persistence == scenario.PersistNone {
		return planStep(at(v), "kind: kill, targets: [shared], "+duration)
	}
	return planStep(fmt.Sprintf("at: %v", firstSync), "kind: touch, targets: [shared]") +
		planStep(at(v-0.0001), "kind: touch, targets: [shared]") + planStep(at(v), "kind: power-loss, targets: [shared], "+duration)
}

// Predicted edges. All times count from the start of the holder's attempt. The holder may have to
// open a connection first, so a node applies its request after one to three one-way latencies, and
// the reply arrives after at most four. The lease ends at TTL - margin, where margin is
// drift·TTL + 2 ms. The key expires one TTL after the request was applied, by the node's clock and
// in whole milliseconds. The other client has the lock once it receives the reply to its first
// attempt after that.

// expiryTick is the precision of key expiry in Redis, in seconds.
const expiryTick = 0.001

func (c conditions) minOneWay() float64 { return c.OneWay.Min.Seconds() }
func (c conditions) maxOneWay() float64 { return c.OneWay.Max.Seconds() }

// retryGap is the longest time between two attempts of the other client: it learns that the first
// one failed, releases the nodes that voted for it, and waits.
func (c conditions) retryGap() float64 { return retryMax.Seconds() + 4*c.maxOneWay() }

func (c conditions) marginFormula() string {
	if driftConstants[c.kind()] == 0 {
		return "drift·TTL"
	}
	return "drift·TTL + 2 ms"
}

func (c conditions) leaseFormula() string {
	return "TTL − " + strings.ReplaceAll(c.marginFormula(), "+", "−")
}

func neverBreaks(conditions) *outcome.PredictedEdge { return nil }

// sharedNodesEdge: the second client gets its quorum once every node in both quorums has lost the
// lock.
func sharedNodesEdge(c conditions) *outcome.PredictedEdge {
	n := float64(2*c.quorum() - c.Nodes)
	return &outcome.PredictedEdge{Nominal: n, SafeLimit: n - 0.5, FailureLimit: n, Formula: "2·quorum − nodes"}
}

// jumpEdge: the key expires at applied + TTL - v. Both clients hold the lock if the second receives
// its reply before the first one's lease ends: v > margin + applied + wait + reply.
func jumpEdge(c conditions) *outcome.PredictedEdge {
	return &outcome.PredictedEdge{Nominal: c.margin(), Formula: c.marginFormula(),
		SafeLimit: c.margin() + 2*c.minOneWay() - expiryTick, FailureLimit: c.margin() + c.retryGap() + 4*c.maxOneWay() + expiryTick}
}

// driftEdge: the key expires at applied + TTL/(1+v). Both clients hold the lock if the second
// receives its reply before the first one's lease ends.
func driftEdge(c conditions) *outcome.PredictedEdge {
	percent := func(lease float64) float64 { return 100 * (c.ttl()/lease - 1) }
	return &outcome.PredictedEdge{Nominal: percent(c.lease()), Formula: "TTL ÷ (" + c.leaseFormula() + ") − 1",
		SafeLimit: percent(c.lease() - 2*c.minOneWay() + expiryTick), FailureLimit: percent(c.lease() - c.retryGap() - 4*c.maxOneWay() - expiryTick)}
}

// restartEdge: a node with persistence restarts with its data. Without, it is back without the key.
func restartEdge(c conditions) *outcome.PredictedEdge {
	if c.Persistence != scenario.PersistNone {
		return nil
	}
	return returnEdge(c, faultDelay, "10 ms")
}

// returnEdge: the node is back, without data, at granted + v + delay. Its first answers come late,
// because clients must reconnect. The specification requires a node to stay down for a TTL, but the
// rest of the lease is enough.
func returnEdge(c conditions, delay time.Duration, subtrahend string) *outcome.PredictedEdge {
	remaining := c.lease() - delay.Seconds()
	return &outcome.PredictedEdge{Nominal: remaining, Formula: c.leaseFormula() + " − " + subtrahend,
		SafeLimit: remaining - 3*c.minOneWay(), FailureLimit: remaining - c.retryGap() - nodeTimeout.Seconds() - 7*c.maxOneWay()}
}

// lateWriteEdge: the holder checks its lease at most 8 one-way latencies after its start, pauses,
// and writes as soon as it resumes. The write does damage if the next holder has already read the
// resource. That holder acquires the lock after the key expires, and may need a new connection to
// read.
func lateWriteEdge(c conditions) *outcome.PredictedEdge {
	return &outcome.PredictedEdge{Nominal: c.ttl(), Formula: "TTL", SafeLimit: c.ttl() - 9*c.maxOneWay() - expiryTick, FailureLimit: c.ttl() + c.retryGap() + 8*c.maxOneWay() + expiryTick}
}

// delayedWriteEdge is like lateWriteEdge, but the holder is running when its lease ends, so it
// releases the lock then.
func delayedWriteEdge(c conditions) *outcome.PredictedEdge {
	return &outcome.PredictedEdge{Nominal: c.lease(), Formula: c.leaseFormula(), SafeLimit: c.lease() - 9*c.maxOneWay(), FailureLimit: c.lease() + c.retryGap() + 8*c.maxOneWay()}
}

// powerLossEdge: the node is back, without what it had not synced, at the lock's age plus the
// restart delay. With fsync everysec, Redis checks ten times per second whether the last sync was at
// least a second ago, and then syncs, which takes the disk some more time (Redis documentation,
// "Redis persistence": you may lose one second of data).
func powerLossEdge(c conditions) *outcome.PredictedEdge {
	if c.Persistence == scenario.PersistAlways {
		return nil
	}
	delay := max(c.RestartDelay, outage)
	edge := returnEdge(c, delay, fmt.Sprintf("%v restart delay", delay))
	if c.Persistence == "everysec" {
		unsynced := outcome.PredictedEdge{Nominal: 1, Formula: "1 s", SafeLimit: 1.11, FailureLimit: 1 - faultDelay.Seconds() - 8*c.maxOneWay()}
		if unsynced.Nominal < edge.Nominal {
			edge.Nominal, edge.Formula = unsynced.Nominal, unsynced.Formula
		}
		edge.SafeLimit, edge.FailureLimit = min(edge.SafeLimit, unsynced.SafeLimit), min(edge.FailureLimit, unsynced.FailureLimit)
	}
	if low, _, _ := lockAges(c, 0); edge.SafeLimit < low {
		return nil // the node is always back too late to do harm
	}
	return edge
}

// hazardsOf returns the names of the hazards to which a scenario's faults belong.
func hazardsOf(s scenario.Scenario) (names []string) {
	for _, h := range hazards {
		if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool { return slices.Contains(h.models, st.Fault.Kind) }) {
			names = append(names, h.name)
		}
	}
	return names
}

// randomScenario returns a scenario with random plans that combine the given hazards.
func (c conditions) randomScenario(names []string, known scenario.KnownNames) (scenario.Scenario, error) {
	var faults []string
	fence, replicas := "none", ""
	if c.Fence {
		fence = "token"
	}
	for _, h := range hazards {
		if !slices.Contains(names, h.name) {
			continue
		}
		if h.name != "power-loss" || c.Persistence != scenario.PersistNone { // without a disk it is a crash
			faults = append(faults, h.random...)
		}
		if h.name == "fail-over" {
			replicas = ", replicas: 1"
		}
	}
	part := func(share float64) string { return formatDuration(share * c.ttl()) }
	text := fmt.Sprintf(`name: assess-random
claim: The lock survives several hazards at once.
topology: {nodes: %d, %s%s}
lock: {kind: redlock, ttl: %v, drift: %g%%, timeout: %v, retry: %s..%s, fence: %t}
clients:
  c1: {start: 500ms}
  c2: {start: 500ms}
  c3: {start: 500ms}
workload: {kind: read-modify-write, keys: 1, fence: %s, think: %s..%s, hold: %s..%s, for: %s}
limit: %s
plan: {random: {faults: [%s], every: %s..%s, lasts: 10ms..%s, safety: 60%%}}
expect: {mutual-exclusion: any, resource-safety: any, vacuous: allowed}
`, c.Nodes, c.persistence(), replicas, c.TTL, 100*c.Drift, nodeTimeout, part(0.005), part(0.025), c.Fence, fence, part(0.001), part(0.02), part(0.02), part(0.5), part(8), part(10),
		strings.Join(faults, ", "), part(0.2), part(2), part(2))
	return parseOne("assess-random", text, known)
}

// confine limits every fault in a plan to the environment. A node's clock may be off by at most the
// largest jump, however often it jumps.
func (c conditions) confine(plan nemesis.Plan) nemesis.Plan {
	plan = slices.Clone(plan)
	offsets, upAt := map[string]time.Duration{}, map[string]time.Duration{}
	impossible := make([]bool, len(plan)) // failures of nodes that may still be down
	limitDuration := func(d *time.Duration, limit time.Duration) *time.Duration {
		if d == nil || *d <= limit {
			return d
		}
		return &limit
	}
	for i := range plan {
		f := &plan[i].Fault
		switch f.Kind {
		case "pause", "gc":
			if f.Kind == "pause" {
				f.For = limitDuration(f.For, c.Pause)
			}
			f.Lasts.Max = min(f.Lasts.Max, c.Pause)
			f.Lasts.Min = min(f.Lasts.Min, f.Lasts.Max)
		case "clock-jump":
			node := strings.Join(f.Targets, " ")
			next := min(max(offsets[node]+f.By, 0), c.ClockJump)
			f.By, offsets[node] = next-offsets[node], next
		case "clock-rate":
			f.Rate = 1 + min(math.Abs(f.Rate-1), c.ClockDrift)
		case "kill", "power-loss":
			delay, node, at := max(c.RestartDelay, time.Millisecond), strings.Join(f.Targets, " "), plan[i].When.At
			isLengthened := f.For == nil || *f.For < delay // later failures were drawn for a shorter downtime
			impossible[i] = at == nil && isLengthened || at != nil && *at < upAt[node]
			if f.For, f.Timer = &delay, nil; !impossible[i] && at != nil {
				upAt[node] = *at + delay + c.TTL/4
			}
		case "failover":
			at := plan[i].When.At
			impossible[i] = at != nil && *at < upAt[strings.Join(f.Targets, " ")]
		case "delay":
			f.Delay.Max = min(f.Delay.Max, c.Delay)
			f.Delay.Min = min(f.Delay.Min, f.Delay.Max)
		case "hold":
			f.For = limitDuration(f.For, c.Delay)
		}
	}
	var confined nemesis.Plan
	for i, st := range plan {
		f := st.Fault
		if !impossible[i] && !(f.Kind == "clock-jump" && f.By == 0) && !(f.Kind == "clock-rate" && f.Rate == 1) {
			confined = append(confined, st)
		}
	}
	return confined
}

// within reports whether every fault in a scenario's plan stays within the environment.
func (c conditions) within(s scenario.Scenario) bool {
	for _, name := range hazardsOf(s) {
		if !c.Assumes(name) {
			return false
		}
	}
	for _, st := range s.Plan {
		f := st.Fault
		switch f.Kind {
		case "pause":
			if f.For == nil || *f.For > c.Pause {
				return false
			}
		case "clock-jump":
			if f.By.Abs() > c.ClockJump {
				return false
			}
		case "clock-rate":
			if math.Abs(f.Rate-1) > c.ClockDrift {
				return false
			}
		case "delay":
			if f.Delay.Max > c.Delay {
				return false
			}
		case "hold":
			if f.For != nil && *f.For > c.Delay {
				return false
			}
		case "kill", "power-loss":
			if f.For != nil && *f.For < c.RestartDelay {
				return false
			}
		}
	}
	return true
}
