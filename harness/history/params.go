package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Schema is the version of the history format.
const Schema = 1

// Params holds general information about a run. It is part of the first event. Durations are
// nanoseconds of true time. A parameter that is 0 counts as missing, and properties that depend on
// it are inconclusive.
type Params struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	Variant  string `json:"variant,omitempty"`
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`

	Clients  []string `json:"clients"`
	Nodes    []string `json:"nodes"`
	Resource string   `json:"resource"` // the protected resource's process name
	Quorum   int      `json:"quorum"`   // number of votes that the lock needs; usually ⌊N/2⌋+1

	Lock                 string        `json:"lock"`                  // kind of lock under test
	TTL                  time.Duration `json:"ttl"`                   // a key's time to live
	Drift                time.Duration `json:"drift"`                 // what the client subtracts from the TTL for clock drift
	NodeTimeout          time.Duration `json:"nodeTimeout"`           // timeout of one request to one node
	RetryMin             time.Duration `json:"retryMin"`              // minimum random delay between attempts
	RetryMax             time.Duration `json:"retryMax"`              // maximum random delay between attempts
	Rate                 float64       `json:"rate"`                  // ρ: correct clocks run at rates within [1−ρ, 1+ρ]
	TimestampUncertainty time.Duration `json:"stampError"`            // maximum error in T
	Slack                time.Duration `json:"slack"`                 // scheduling delay allowed in liveness bounds
	Rounds               int           `json:"rounds,omitempty"`      // k: some client must acquire a free lock within this many rounds of a node timeout plus RetryMax
	Fence                string        `json:"fence"`                 // none, token, counter or check-and-set
	Limit                time.Duration `json:"limit"`                 // time limit of the run
	MaxExtends           int           `json:"maxExtends,omitempty"`  // maximum number of extensions per hold
	MaxHold              time.Duration `json:"maxHold,omitempty"`     // maximum duration of a hold, including extensions
	MayBeIdle            bool          `json:"vacuousOk,omitempty"`   // the run need not contain a successful acquire
	NoLossNotice         bool          `json:"untold,omitempty"`      // the lock has no deadlines and does not notify its holder of a loss
	Steps                []PlannedStep `json:"steps,omitempty"`       // the nemesis plan
	Reach                []Reach       `json:"reach,omitempty"`       // for each client that can't reach all nodes
	TTLs                 []ClientTTL   `json:"ttls,omitempty"`        // for each client that has a TTL of its own
	Persistence          string        `json:"persistence,omitempty"` // the nodes' persistence: none, everysec, always or no
	ReportsKeys          bool          `json:"life,omitempty"`        // the nodes reported every change to a key; see Life
	Epoch                int64         `json:"epoch,omitempty"`       // Unix time at T = 0, in nanoseconds
	Server               string        `json:"server,omitempty"`      // description of the nodes' software, if known
}

// Reach lists the nodes that a client can reach. All other nodes refuse its connections.
type Reach struct {
	Client string   `json:"client"`
	Nodes  []string `json:"nodes"`
}

// ClientTTL is the TTL of one client's keys, and what the client subtracts from it for clock drift.
type ClientTTL struct {
	Client string        `json:"client"`
	TTL    time.Duration `json:"ttl"`
	Drift  time.Duration `json:"drift"`
}

// TTLOf returns a client's own TTL, or the lock's.
func (p *Params) TTLOf(client string) ClientTTL {
	if i := slices.IndexFunc(p.TTLs, func(t ClientTTL) bool { return t.Client == client }); i >= 0 {
		return p.TTLs[i]
	}
	return ClientTTL{client, p.TTL, p.Drift}
}

// MaxTTL returns the longest TTL.
func (p *Params) MaxTTL() time.Duration {
	longest := p.TTL
	for _, t := range p.TTLs {
		longest = max(longest, t.TTL)
	}
	return longest
}

// PlannedStep is the information about a step of the nemesis plan that a reader needs to determine
// whether the step took place.
type PlannedStep struct {
	Step    int      `json:"step"`            // number, from 1
	Fault   string   `json:"fault"`           // kind of fault
	Targets []string `json:"targets"`         // clients, nodes or links
	Trigger string   `json:"when"`            // description of the trigger
	Repeats bool     `json:"every,omitempty"` // the trigger may fire repeatedly
	// Delay is the maximum one-way delay that the step adds to messages. 0 means none or unknown.
	Delay time.Duration `json:"delay,omitempty"`
	// Offset is how far the step sets clocks forward (or back, if it is negative). 0 means that the
	// step doesn't set clocks.
	Offset time.Duration `json:"by,omitempty"`
	// Rate is the rate at which the step makes clocks run. 0 means that it doesn't change the rate.
	Rate float64 `json:"rate,omitempty"`
	// Proof, if not nil, is what must be observed to show that the step had an effect.
	Proof *Proof `json:"proof,omitempty"`
	// Impact says how the fault affects contending clients (ImpactAnswers, …). "" means the usual
	// impact of this kind of fault, or the worst impact if the kind is unknown.
	Impact string `json:"costs,omitempty"`
	// Optional means that the trigger need not occur. If it does, the fault must take effect.
	Optional bool `json:"optional,omitempty"`
}

// Impacts of an active fault on contending clients.
const (
	ImpactNone     = "nothing" // no reply is delayed or missing
	ImpactMessages = "little"  // single messages are lost or late; a lock is affected for a node timeout at most
	ImpactAnswers  = "answers" // an affected client or node does nothing, and an affected link carries nothing
)

// Proof is what must be observed on at least one target of an active fault to show that the fault
// had an effect. A run whose step had no effect shows nothing about that step.
type Proof struct {
	// Targets lists the kinds of target that a lock must have used while the fault was active.
	Targets []string `json:"use,omitempty"`
	// MinOffset is the minimum error that a clock must have had.
	MinOffset time.Duration `json:"off,omitempty"`
	// NeedsPersistence means that the nodes must write their keys to disk.
	NeedsPersistence bool `json:"keeps,omitempty"`
	// IdleText occurs in the fault's first read-back if the fault had no effect.
	IdleText string `json:"idle,omitempty"`
}

// Kinds of target that a lock can use: a client that wants or holds the lock, a node that is
// contacted or stores a key, and a link that carries a command or is about to.
const (
	TargetClient = "client"
	TargetNode   = "node"
	TargetLink   = "link"
)

// Replica is the name of the far end of a node's replication link, as in "n3-replica".
const Replica = "replica"

// Upper bounds on Params. They are far above a run's limits (package scenario), but low enough that
// calculations neither overflow nor use more memory than the file's size justifies.
const (
	maxClients  = 100_000 // in a Jepsen history, every crash is followed by a new client
	maxNodes    = 1000
	maxSteps    = 10_000
	maxNameLen  = 1024
	maxCount    = 1_000_000
	maxDuration = 100 * 24 * time.Hour
	maxEpoch    = 1 << 62 // the year 2116
)

// check returns an error if a value read from a file is out of range.
func (p *Params) check() error {
	durations := map[string]time.Duration{"ttl": p.TTL, "drift": p.Drift, "nodeTimeout": p.NodeTimeout, "retryMin": p.RetryMin, "retryMax": p.RetryMax,
		"stampError": p.TimestampUncertainty, "slack": p.Slack, "limit": p.Limit, "maxHold": p.MaxHold}
	counts := []struct {
		name         string
		value, limit int
	}{
		{"clients", len(p.Clients), maxClients}, {"nodes", len(p.Nodes), maxNodes}, {"steps", len(p.Steps), maxSteps}, {"reach", len(p.Reach), maxClients}, {"ttls", len(p.TTLs), maxClients},
		{"quorum", p.Quorum, maxNodes}, {"rounds", p.Rounds, maxCount}, {"maxExtends", p.MaxExtends, maxCount},
	}
	names := map[string][]string{"clients": p.Clients, "nodes": p.Nodes, "names": {p.Scenario, p.Variant, p.Backend, p.Resource, p.Lock, p.Fence, p.Persistence}}
	for i, s := range p.Steps {
		name := fmt.Sprintf("steps[%d]", i)
		durations[name+".delay"], durations[name+".by"] = s.Delay, s.Offset.Abs()
		names[name] = append([]string{s.Fault, s.Trigger, s.Impact}, s.Targets...)
		if p := s.Proof; p != nil {
			durations[name+".proof.off"] = p.MinOffset
			names[name+".proof"] = append([]string{p.IdleText}, p.Targets...)
		}
		if !(s.Rate >= 0 && s.Rate <= maxCount) {
			return fmt.Errorf("%s.rate: %g is not between 0 and %d", name, s.Rate, maxCount)
		}
		if s.Step < 1 || s.Step > maxSteps {
			return fmt.Errorf("%s.step: %d is not between 1 and %d", name, s.Step, maxSteps)
		}
	}
	for i, t := range p.TTLs {
		name := fmt.Sprintf("ttls[%d]", i)
		durations[name+".ttl"], durations[name+".drift"] = t.TTL, t.Drift
		names[name] = []string{t.Client}
		if t.TTL == 0 {
			return fmt.Errorf("%s.ttl is missing", name)
		}
	}
	for i, r := range p.Reach {
		names[fmt.Sprintf("reach[%d]", i)] = append([]string{r.Client}, r.Nodes...)
	}
	for _, name := range slices.Sorted(maps.Keys(durations)) {
		if d := durations[name]; d < 0 || d > maxDuration {
			return fmt.Errorf("%s: %d is not between 0 and %d nanoseconds", name, d, maxDuration)
		}
	}
	for _, c := range counts {
		if c.value < 0 || c.value > c.limit {
			return fmt.Errorf("%s: %d is not between 0 and %d", c.name, c.value, c.limit)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, w := range names[name] {
			if len(w) > maxNameLen {
				return fmt.Errorf("%s: a name has %d bytes, more than the maximum of %d", name, len(w), maxNameLen)
			}
		}
	}
	if p.Epoch < 0 || p.Epoch > maxEpoch {
		return fmt.Errorf("epoch: %d is not between 0 and %d", p.Epoch, int64(maxEpoch))
	}
	if !(p.Rate >= 0 && p.Rate < 1) {
		return fmt.Errorf("rate: %g is not in the range [0, 1)", p.Rate)
	}
	return nil
}
