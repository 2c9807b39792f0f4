package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Schema is the version of the history format.
const Schema = 1

// Params is what a reader needs to know besides the facts. It is part of the first event. Durations
// are nanoseconds of true time. A parameter of 0 is missing, and a property that needs it is
// undecided.
type Params struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	Variant  string `json:"variant,omitempty"`
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`

	Clients  []string `json:"clients"`
	Nodes    []string `json:"nodes"`
	Resource string   `json:"resource"` // process name of the protected resource
	Quorum   int      `json:"quorum"`   // votes that the lock needs: ⌊N/2⌋+1, or the lock's own number

	Lock         string        `json:"lock"`                  // kind of the lock under test
	TTL          time.Duration `json:"ttl"`                   // time to live of a key
	Drift        time.Duration `json:"drift"`                 // what the client subtracts for clock drift
	NodeTimeout  time.Duration `json:"nodeTimeout"`           // bound on one request to one node
	RetryMin     time.Duration `json:"retryMin"`              // bounds of the random delay between attempts
	RetryMax     time.Duration `json:"retryMax"`              //
	Rate         float64       `json:"rate"`                  // ρ: clocks run within [1−ρ, 1+ρ]
	StampError   time.Duration `json:"stampError"`            // ε: bound on the error of T
	Slack        time.Duration `json:"slack"`                 // scheduling delay allowed before a liveness bound counts as missed
	Rounds       int           `json:"rounds,omitempty"`      // k: rounds of a node time-out and RetryMax within which somebody must get a free lock
	Fence        string        `json:"fence"`                 // none, token, counter or check-and-set
	Limit        time.Duration `json:"limit"`                 // when the run is stopped at the latest
	MaxExtends   int           `json:"maxExtends,omitempty"`  // maximum number of extensions of one hold
	MaxHold      time.Duration `json:"maxHold,omitempty"`     // how long one hold may last, including extensions
	MayBeIdle    bool          `json:"vacuousOk,omitempty"`   // the scenario allows that nobody acquires
	NoLossNotice bool          `json:"untold,omitempty"`      // the lock has no deadline and does not notify its holder of a loss
	Steps        []PlannedStep `json:"steps,omitempty"`       // the plan of the nemesis
	Reach        []Reach       `json:"reach,omitempty"`       // clients that can't reach every node
	Persistence  string        `json:"persistence,omitempty"` // the nodes' persistence: none, everysec, always, no
	Life         bool          `json:"life,omitempty"`        // the record includes each key's life as reported by the nodes, see Life
	Epoch        int64         `json:"epoch,omitempty"`       // what a correct wall clock shows at T = 0, in nanoseconds since 1970
	Server       string        `json:"server,omitempty"`      // description of the nodes' software, where the backend knows it
}

// Reach lists the nodes that a client can talk to. The other nodes refuse it.
type Reach struct {
	Client string   `json:"client"`
	Nodes  []string `json:"nodes"`
}

// PlannedStep is one step of the nemesis plan, as far as a reader must know it to see whether it
// took place.
type PlannedStep struct {
	Step    int      `json:"step"`    // from 1
	Fault   string   `json:"fault"`   // kind
	Targets []string `json:"targets"` // clients, nodes or links
	When    string   `json:"when"`    // description of the trigger
	Every   bool     `json:"every,omitempty"`
	// Delay is the maximum delay that the step adds to messages, one way. 0 means none or unknown.
	Delay time.Duration `json:"delay,omitempty"`
	// By is how far the step sets clocks forward, or back if negative. 0 means that it doesn't.
	By time.Duration `json:"by,omitempty"`
	// Rate is the rate at which the step lets clocks run. 0 means that it doesn't change the rate.
	Rate float64 `json:"rate,omitempty"`
	// Proof is what must be observed to show that the step had an effect; may be nil.
	Proof *Proof `json:"proof,omitempty"`
	// Impact is what the fault takes from contending clients (ImpactAnswers, …). If "", the kind's
	// usual impact applies, or else everything.
	Impact string `json:"costs,omitempty"`
	// Optional means that the trigger need not occur. If it does, the fault must take effect.
	Optional bool `json:"optional,omitempty"`
}

// What a fault may take from contending clients while it is in force.
const (
	ImpactNone     = "nothing" // no reply is delayed or missing
	ImpactMessages = "little"  // single messages; nothing that a lock misses for longer than a node time-out
	ImpactAnswers  = "answers" // an affected client or node does nothing, an affected link carries nothing
)

// Proof is what must be observed of a fault in force, on at least one of its targets, to show that
// it had an effect. A run in which a step had no effect shows nothing about it.
type Proof struct {
	// Use lists the sorts of target that a lock must have used meanwhile.
	Use []string `json:"use,omitempty"`
	// MinOffset is the minimum error that a clock must have had.
	MinOffset time.Duration `json:"off,omitempty"`
	// NeedsPersistence means that the nodes must persist their keys to disk.
	NeedsPersistence bool `json:"keeps,omitempty"`
	// IdleText is a text in the read-back of the start that shows that the fault had no effect.
	IdleText string `json:"idle,omitempty"`
}

// Sorts of target that a lock can use: a client that wants or holds the lock, a node that is
// contacted or has a key, and a link that carries a command or is about to.
const (
	UseClient = "client"
	UseNode   = "node"
	UseLink   = "link"
)

// Replica is the far end of a node's replication link, as in "n3-replica".
const Replica = "replica"

// Bounds of Params. They are far above what any run has (package scenario), so that calculations
// with them neither overflow nor use more memory than the size of the file justifies.
const (
	maxClients = 100_000 // a Jepsen history has a new client after each crash
	maxNodes   = 1000
	maxSteps   = 10_000
	maxName    = 1024
	maxTimes   = 1_000_000
	maxSpan    = 100 * 24 * time.Hour
	maxEpoch   = 1 << 62 // in the year 2116
)

// check returns an error if params from a file are out of range.
func (p *Params) check() error {
	spans := map[string]time.Duration{"ttl": p.TTL, "drift": p.Drift, "nodeTimeout": p.NodeTimeout, "retryMin": p.RetryMin, "retryMax": p.RetryMax,
		"stampError": p.StampError, "slack": p.Slack, "limit": p.Limit, "maxHold": p.MaxHold}
	counts := []struct {
		name      string
		got, most int
	}{
		{"clients", len(p.Clients), maxClients}, {"nodes", len(p.Nodes), maxNodes}, {"steps", len(p.Steps), maxSteps}, {"reach", len(p.Reach), maxClients},
		{"quorum", p.Quorum, maxNodes}, {"rounds", p.Rounds, maxTimes}, {"maxExtends", p.MaxExtends, maxTimes},
	}
	texts := map[string][]string{"clients": p.Clients, "nodes": p.Nodes, "names": {p.Scenario, p.Variant, p.Backend, p.Resource, p.Lock, p.Fence, p.Persistence}}
	for i, s := range p.Steps {
		name := fmt.Sprintf("steps[%d]", i)
		spans[name+".delay"], spans[name+".by"] = s.Delay, s.By.Abs()
		texts[name] = append([]string{s.Fault, s.When, s.Impact}, s.Targets...)
		if p := s.Proof; p != nil {
			spans[name+".proof.off"] = p.MinOffset
			texts[name+".proof"] = append([]string{p.IdleText}, p.Use...)
		}
		if !(s.Rate >= 0 && s.Rate <= maxTimes) {
			return fmt.Errorf("%s.rate: %g is out of range: at most %d from 0", name, s.Rate, maxTimes)
		}
		if s.Step < 1 || s.Step > maxSteps {
			return fmt.Errorf("%s.step: %d is out of range: at most %d from 1", name, s.Step, maxSteps)
		}
	}
	for i, r := range p.Reach {
		texts[fmt.Sprintf("reach[%d]", i)] = append([]string{r.Client}, r.Nodes...)
	}
	for _, name := range slices.Sorted(maps.Keys(spans)) {
		if d := spans[name]; d < 0 || d > maxSpan {
			return fmt.Errorf("%s: %d is out of range: at most %d nanoseconds from 0", name, d, maxSpan)
		}
	}
	for _, c := range counts {
		if c.got < 0 || c.got > c.most {
			return fmt.Errorf("%s: %d is out of range: at most %d from 0", c.name, c.got, c.most)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, w := range texts[name] {
			if len(w) > maxName {
				return fmt.Errorf("%s: a name of %d bytes: at most %d", name, len(w), maxName)
			}
		}
	}
	if p.Epoch < 0 || p.Epoch > maxEpoch {
		return fmt.Errorf("epoch: %d is out of range: at most %d from 0", p.Epoch, int64(maxEpoch))
	}
	if !(p.Rate >= 0 && p.Rate < 1) {
		return fmt.Errorf("rate: %g is out of range: from 0 to below 1", p.Rate)
	}
	return nil
}
