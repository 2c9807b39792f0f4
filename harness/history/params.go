package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Schema is the version of the history format.
const Schema = 1

// Params holds what a reader must know about a run in general. It is part of the first event.
// Durations are nanoseconds of true time. A parameter that is 0 counts as missing, and a property
// that needs it is undecided.
type Params struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	Variant  string `json:"variant,omitempty"`
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`

	Clients  []string `json:"clients"`
	Nodes    []string `json:"nodes"`
	Resource string   `json:"resource"` // process name of the protected resource
	Quorum   int      `json:"quorum"`   // votes that the lock needs: ⌊N/2⌋+1, unless the lock has another rule

	Lock         string        `json:"lock"`                  // kind of the lock under test
	TTL          time.Duration `json:"ttl"`                   // time to live of a key
	Drift        time.Duration `json:"drift"`                 // what the client subtracts from the TTL for clock drift
	NodeTimeout  time.Duration `json:"nodeTimeout"`           // time-out of one request to one node
	RetryMin     time.Duration `json:"retryMin"`              // range of the random delay between attempts
	RetryMax     time.Duration `json:"retryMax"`              //
	Rate         float64       `json:"rate"`                  // ρ: the rates of correct clocks lie within [1−ρ, 1+ρ]
	StampError   time.Duration `json:"stampError"`            // ε: maximum error of T
	Slack        time.Duration `json:"slack"`                 // scheduling delay allowed before a liveness bound counts as missed
	Rounds       int           `json:"rounds,omitempty"`      // k: number of rounds, of a node time-out plus RetryMax each, within which some client must acquire a free lock
	Fence        string        `json:"fence"`                 // none, token, counter or check-and-set
	Limit        time.Duration `json:"limit"`                 // when the run is stopped if it has not ended by itself
	MaxExtends   int           `json:"maxExtends,omitempty"`  // maximum number of extensions of one hold
	MaxHold      time.Duration `json:"maxHold,omitempty"`     // maximum duration of one hold, including extensions
	MayBeIdle    bool          `json:"vacuousOk,omitempty"`   // the scenario may end without any client acquiring the lock
	NoLossNotice bool          `json:"untold,omitempty"`      // the lock has no deadline and does not notify its holder of a loss
	Steps        []PlannedStep `json:"steps,omitempty"`       // the plan of the nemesis
	Reach        []Reach       `json:"reach,omitempty"`       // clients that can't reach every node
	Persistence  string        `json:"persistence,omitempty"` // the nodes' persistence: none, everysec, always, no
	Life         bool          `json:"life,omitempty"`        // the nodes reported every change to a key, see Life
	Epoch        int64         `json:"epoch,omitempty"`       // Unix time at T = 0, in nanoseconds
	Server       string        `json:"server,omitempty"`      // description of the nodes' software, if the backend knows it
}

// Reach lists the nodes that a client can reach. All other nodes refuse its connections.
type Reach struct {
	Client string   `json:"client"`
	Nodes  []string `json:"nodes"`
}

// PlannedStep is what a reader must know about a step of the nemesis plan to tell whether it took
// place.
type PlannedStep struct {
	Step    int      `json:"step"`    // from 1
	Fault   string   `json:"fault"`   // kind
	Targets []string `json:"targets"` // clients, nodes or links
	When    string   `json:"when"`    // description of the trigger
	Every   bool     `json:"every,omitempty"`
	// Delay is the maximum delay that the step adds to messages, one way. 0 means none or unknown.
	Delay time.Duration `json:"delay,omitempty"`
	// By is how far the step sets clocks forward, or back if it is negative. 0 means that the step
	// doesn't set clocks.
	By time.Duration `json:"by,omitempty"`
	// Rate is the rate that the step gives to clocks. 0 means that it doesn't change their rate.
	Rate float64 `json:"rate,omitempty"`
	// Proof is what must be observed to show that the step had an effect. It may be nil.
	Proof *Proof `json:"proof,omitempty"`
	// Impact says how the fault affects contending clients (ImpactAnswers, …). "" means the usual
	// impact of this kind of fault, or the worst if that is not known.
	Impact string `json:"costs,omitempty"`
	// Optional means that the trigger need not occur. If it occurs, the fault must take effect.
	Optional bool `json:"optional,omitempty"`
}

// Impacts that an active fault may have on contending clients.
const (
	ImpactNone     = "nothing" // no reply is delayed or missing
	ImpactMessages = "little"  // single messages are lost or late; a lock notices nothing for longer than a node time-out
	ImpactAnswers  = "answers" // an affected client or node does nothing, an affected link carries nothing
)

// Proof is what must be observed on at least one of an active fault's targets to show that the
// fault had an effect. A run in which a step had no effect shows nothing about that step.
type Proof struct {
	// Use lists the sorts of target that a lock must have used while the fault was active.
	Use []string `json:"use,omitempty"`
	// MinOffset is how far a clock must have been off, at least.
	MinOffset time.Duration `json:"off,omitempty"`
	// NeedsPersistence means that the nodes must write their keys to disk.
	NeedsPersistence bool `json:"keeps,omitempty"`
	// IdleText is a text that the fault's first read-back contains if the fault had no effect.
	IdleText string `json:"idle,omitempty"`
}

// Sorts of target that a lock can use: a client that wants or holds the lock, a node that is
// contacted or stores a key, and a link that carries a command or is about to.
const (
	UseClient = "client"
	UseNode   = "node"
	UseLink   = "link"
)

// Replica is the far end of a node's replication link, as in "n3-replica".
const Replica = "replica"

// Upper bounds for Params. They are far above the limits of a run (package scenario), but low
// enough that calculations neither overflow nor use more memory than the size of the file
// justifies.
const (
	maxClients = 100_000 // in a Jepsen history, each crash is followed by a new client
	MaxNodes   = 1000
	maxSteps   = 10_000
	maxName    = 1024
	maxTimes   = 1_000_000
	maxSpan    = 100 * 24 * time.Hour
	maxEpoch   = 1 << 62 // in the year 2116
)

// check returns an error if a value, as read from a file, is out of range.
func (p *Params) check() error {
	spans := map[string]time.Duration{"ttl": p.TTL, "drift": p.Drift, "nodeTimeout": p.NodeTimeout, "retryMin": p.RetryMin, "retryMax": p.RetryMax,
		"stampError": p.StampError, "slack": p.Slack, "limit": p.Limit, "maxHold": p.MaxHold}
	counts := []struct {
		name      string
		got, most int
	}{
		{"clients", len(p.Clients), maxClients}, {"nodes", len(p.Nodes), MaxNodes}, {"steps", len(p.Steps), maxSteps}, {"reach", len(p.Reach), maxClients},
		{"quorum", p.Quorum, MaxNodes}, {"rounds", p.Rounds, maxTimes}, {"maxExtends", p.MaxExtends, maxTimes},
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
