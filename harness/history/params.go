package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Schema is the version of the history's form.
const Schema = 1

// Params is what a reader needs to know besides the facts. It stands in the
// first event. Durations are nanoseconds of true time. A figure that is 0 is
// missing, and a property that needs it is undecided.
type Params struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"`
	Variant  string `json:"variant,omitempty"`
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`

	Clients  []string `json:"clients"`
	Nodes    []string `json:"nodes"`
	Resource string   `json:"resource"` // process name of the protected resource
	Quorum   int      `json:"quorum"`   // votes that the lock needs: ⌊N/2⌋+1, or its own number

	Lock        string        `json:"lock"`                  // kind of the lock under test
	TTL         time.Duration `json:"ttl"`                   // a key's time to live
	Drift       time.Duration `json:"drift"`                 // what the client subtracts for clock drift
	NodeTimeout time.Duration `json:"nodeTimeout"`           // bound of one request to one node
	RetryMin    time.Duration `json:"retryMin"`              // bounds of the random delay between attempts
	RetryMax    time.Duration `json:"retryMax"`              //
	Rate        float64       `json:"rate"`                  // ρ: clocks run within [1−ρ, 1+ρ]
	StampError  time.Duration `json:"stampError"`            // ε: bound of the error of T
	Slack       time.Duration `json:"slack"`                 // what scheduling may add before a liveness bound counts as missed
	Rounds      int           `json:"rounds,omitempty"`      // k: rounds of a node time-out and RetryMax in which a free lock must be had by somebody
	Fence       string        `json:"fence"`                 // none, token or check-and-set
	Limit       time.Duration `json:"limit"`                 // when the run is stopped at the latest
	MaxExtends  int           `json:"maxExtends,omitempty"`  // most extensions that one hold may have
	MaxHold     time.Duration `json:"maxHold,omitempty"`     // how long one hold may last, extensions and all
	MayBeIdle   bool          `json:"vacuousOk,omitempty"`   // the scenario allows that nobody acquires
	Untold      bool          `json:"untold,omitempty"`      // the lock names no deadline and tells nobody of a loss
	Steps       []PlannedStep `json:"steps,omitempty"`       // what the nemesis is to do
	Reach       []Reach       `json:"reach,omitempty"`       // clients that can't reach every node
	Persistence string        `json:"persistence,omitempty"` // of the nodes: none, everysec, always, no
	Life        bool          `json:"life,omitempty"`        // the nodes' own word of each key's life is in the record; see Life
	Epoch       int64         `json:"epoch,omitempty"`       // what a right wall clock shows at T = 0, nanoseconds since 1970
	Server      string        `json:"server,omitempty"`      // what the nodes run, in words, where the backend says so
}

// Reach lists the nodes that a client can talk to; the others refuse it.
type Reach struct {
	Client string   `json:"client"`
	Nodes  []string `json:"nodes"`
}

// PlannedStep is one step of the nemesis plan, as far as a reader must know it
// to see whether it happened.
type PlannedStep struct {
	Step    int      `json:"step"`    // from 1
	Fault   string   `json:"fault"`   // kind
	Targets []string `json:"targets"` // clients, nodes or links
	When    string   `json:"when"`    // the trigger in words
	Every   bool     `json:"every,omitempty"`
	// Delay is by how much the step lets messages be late at most, one way; 0: it doesn't, or nobody knows.
	Delay time.Duration `json:"delay,omitempty"`
	// By is how far the step sets clocks forward, or back where it is negative; 0: it doesn't.
	By time.Duration `json:"by,omitempty"`
	// Rate is how fast the step lets clocks run; 0: it leaves that as it is.
	Rate float64 `json:"rate,omitempty"`
	// Proof is what must be seen of the step besides, nil: nothing.
	Proof *Proof `json:"proof,omitempty"`
	// Costs is what the fault takes from those who contend (CostsAnswers …), where its kind
	// says so; "": what a kind of its name is known for, or else everything.
	Costs string `json:"costs,omitempty"`
	// Optional: its trigger need not come. If it does, the fault has to take effect.
	Optional bool `json:"optional,omitempty"`
}

// What a fault may take from those who contend for a lock, for as long as it is in force.
const (
	CostsNothing = "nothing" // no answer comes later, or fails to come
	CostsLittle  = "little"  // single messages: nothing that a lock needs for longer than a node time-out
	CostsAnswers = "answers" // a client or node that it hits does nothing, a link carries nothing
)

// Proof is what must be seen of a fault that was in force, on one of its targets, for it
// to have hit something. A step that hit nothing shows nothing.
type Proof struct {
	// Use lists the sorts of target that a lock must have made use of meanwhile.
	Use []string `json:"use,omitempty"`
	// Off is by how much a clock must have gone wrong at the least.
	Off time.Duration `json:"off,omitempty"`
	// Keeps: the nodes must keep what they are told on a disk.
	Keeps bool `json:"keeps,omitempty"`
	// Idle is words by which a read-back of the begin tells that nothing was hit.
	Idle string `json:"idle,omitempty"`
}

// Sorts of target that are of use to a lock: a client that wants it or has it; a node that
// is asked, or has a key; a link that carries a command, or is to.
const (
	UseClient = "client"
	UseNode   = "node"
	UseLink   = "link"
)

// Replica is the end of a node's replication link, as in "n3-replica".
const Replica = "replica"

// Bounds of Params. They are far above what a run has (package scenario), so that what
// is reckoned with them neither overflows nor takes memory that the file has not.
const (
	maxClients = 100_000 // a history of Jepsen's has a new one after each crash
	maxNodes   = 1000
	maxSteps   = 10_000
	maxName    = 1024
	maxTimes   = 1_000_000
	maxSpan    = 100 * 24 * time.Hour
	maxEpoch   = 1 << 62 // in 2116
)

// check says what is wrong with params that stand in a file.
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
	words := map[string][]string{"clients": p.Clients, "nodes": p.Nodes, "names": {p.Scenario, p.Variant, p.Backend, p.Resource, p.Lock, p.Fence, p.Persistence}}
	for i, s := range p.Steps {
		name := fmt.Sprintf("steps[%d]", i)
		spans[name+".delay"], spans[name+".by"] = s.Delay, s.By.Abs()
		words[name] = append([]string{s.Fault, s.When, s.Costs}, s.Targets...)
		if p := s.Proof; p != nil {
			spans[name+".proof.off"] = p.Off
			words[name+".proof"] = append([]string{p.Idle}, p.Use...)
		}
		if !(s.Rate >= 0 && s.Rate <= maxTimes) {
			return fmt.Errorf("%s.rate: %g is out of range: at most %d from 0", name, s.Rate, maxTimes)
		}
		if s.Step < 1 || s.Step > maxSteps {
			return fmt.Errorf("%s.step: %d is out of range: at most %d from 1", name, s.Step, maxSteps)
		}
	}
	for i, r := range p.Reach {
		words[fmt.Sprintf("reach[%d]", i)] = append([]string{r.Client}, r.Nodes...)
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
	for _, name := range slices.Sorted(maps.Keys(words)) {
		for _, w := range words[name] {
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
