// Package scenario is one experiment as plain data, and as the YAML file in which
// people write it.
//
// A Scenario says who contends for what, what goes wrong, and what is expected to come
// of it. Parse reads a file of them, and an Error says what is wrong there, in which
// line and column, and what is allowed; Write is its inverse. Known has the names that a
// file may use and that this package can't know. A Manifest is the run.json of one run: the
// scenario with all values drawn and scaled, and what else it takes to run it again.
//
// A file is read in four steps. Variants and overrides work on the tree, so that one
// reader serves all, and an error shows the line that is to blame:
//
//	text ──► tree of nodes, each with its place          (tree.go)
//	     ──► one tree for the base and for each variant  (parse.go)
//	     ──► Scenario, key by key                        (form.go: the keys; shape.go and scalar.go: how to read them)
//	     ──► does it hang together?                      (check.go)
//
// Schema describes the same table of keys for editors, and Check, which holds a run.json to
// all that a file is held to, writes by it the tree that a scenario would be read from.
//
// The files, each of which uses only those below it:
//
//	manifest.go, resolved.go    a run.json, held to all that a file is held to
//	write.go                    the file of a scenario
//	parse.go, variants.go       a file, its variants and overrides
//	check.go, check_….go, refer.go
//	                            do the parts fit together, and is there what they name?
//	form.go, form_plan.go       every key that a file may hold
//	wrap.go, list.go, numbers.go, scalar.go, shape.go
//	                            how what stands at a key is read, and how it is written
//	tree.go, writer.go, error.go
//	                            nodes, their places, and what is wrong there
//	drawn.go, scaled.go, needs.go, targets.go
//	                            what a scenario comes to: with a seed, on a backend
//	scenario.go, expect.go, bounds.go
//	                            the data, and how much of it there may be
//
// The tree is that of go.yaml.in/yaml/v3. The decoder of goccy/go-yaml knows places, too,
// but its errors speak of Go's types, it takes aliases and reads 010 as 8, and neither what
// is allowed nor the schema would come from it: it would save the excerpt of a line.
//
// Deliberately missing: whatever runs a scenario (package harness), the names of locks,
// properties and causes (Known), and any judgement of what came of a run.
package scenario

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// Scenario is one experiment: who contends for what, what goes wrong, and what
// is expected to come of it. It is plain data; its file form is YAML.
type Scenario struct {
	Name    string   `json:"name"`
	Variant string   `json:"variant,omitempty"`
	Claim   string   `json:"claim"`
	Source  string   `json:"source"`
	Tags    []string `json:"tags,omitempty"`
	// Debate is who affirms the claim and who denies it, by the names of Parties.
	Debate map[string]string `json:"debate,omitempty"`
	// Tier says which locks of other kinds are held to Expect: see With.
	Tier string `json:"tier,omitempty"`
	// Cures names the scenarios whose harm this one shows how to avoid.
	Cures    []string `json:"cures,omitempty"`
	Topology Topology `json:"topology"`

	Lock     lock.Settings `json:"lock"`
	Clients  []Client      `json:"clients"`
	Workload Workload      `json:"workload"`
	Plan     nemesis.Plan  `json:"plan,omitempty"`
	// Random is what Drawn draws the plan by; nil: the plan is as it stands.
	Random *nemesis.Random `json:"random,omitempty"`
	Limits Limits          `json:"limits,omitzero"`
	Limit  time.Duration   `json:"limit"`           // the run is stopped after this true time
	Exact  bool            `json:"exact,omitempty"` // things must fall on one microsecond
	Scale  float64         `json:"scale,omitempty"` // pinned factor of all durations on real backends; 0: the backend's default

	Expect  map[string]Expectation `json:"expect"`
	Numbers map[string]Bound       `json:"numbers,omitempty"`
	Vacuous bool                   `json:"vacuous,omitempty"` // nobody need acquire
}

// parties are those whose claims a scenario may put to the test: Martin Kleppmann
// and antirez, who argued over Redlock in 2016, and the documentation of Redis.
func parties() []string { return []string{"kleppmann", "antirez", "redis"} }

// What a party says of a scenario's claim.
const (
	affirms = "affirms"
	denies  = "denies"
)

// Topology is the lock servers.
type Topology struct {
	Nodes int `json:"nodes"`
	// Server is what they run, of lock.Servers; "": Redis.
	Server      string `json:"server,omitempty"`
	Persistence string `json:"persistence"`        // none, everysec, always or no
	Expiry      string `json:"expiry,omitempty"`   // the clock that keys expire by: wall, as Redis does it, or monotonic; "": wall
	Replicas    int    `json:"replicas,omitempty"` // of each node: one, asynchronous, or none
	// DownAfter is how long a master is out of reach until its sentinels take it for dead;
	// 0: it has none.
	DownAfter time.Duration `json:"downAfter,omitempty"`
	// Image is what the nodes run, as in redis:7, wherever they are containers; "": the
	// backend's own choice.
	Image string `json:"image,omitempty"`
	// Addresses names the nodes as they stand in the lock's configuration, where that is wrong.
	Addresses []string `json:"addresses,omitempty"`
}

// ExpiryMonotonic is a topology whose nodes expire keys by a clock that nobody sets.
const ExpiryMonotonic = "monotonic"

// Persistence of nodes that keep nothing on disk, and that sync each write before
// they answer.
const (
	PersistNone   = "none"
	PersistAlways = "always"
)

// defaultDownAfter is what DownAfter is where sentinels are asked for and nothing is
// said of it. Redis's own default of 30 s is longer than most leases.
const defaultDownAfter = time.Second

// Client is one contender.
type Client struct {
	Name   string         `json:"name"`
	Start  *nemesis.Event `json:"start,omitempty"`  // what it waits for
	Delay  time.Duration  `json:"delay,omitempty"`  // or when it starts
	Reach  []string       `json:"reach,omitempty"`  // nodes it can talk to; nil: all
	Think  *client.Range  `json:"think,omitempty"`  // these override the workload's
	Hold   *client.Range  `json:"hold,omitempty"`   //
	Cycles *int           `json:"cycles,omitempty"` //
	// CancelAfter does likewise.
	CancelAfter *time.Duration `json:"cancelAfter,omitempty"`
}

func (c Client) reaches(node string) bool { return c.Reach == nil || slices.Contains(c.Reach, node) }

// Workload is what each client does.
type Workload struct {
	Kind    string        `json:"kind"` // read-modify-write
	Keys    int           `json:"keys"`
	Fence   string        `json:"fence"`
	Think   client.Range  `json:"think"`
	Hold    client.Range  `json:"hold"`
	Prepare client.Range  `json:"prepare,omitzero"`
	Extend  time.Duration `json:"extend,omitempty"`  // how often the lock is extended while it is held; 0: never
	Reenter int           `json:"reenter,omitempty"` // how many times a holder acquires its lock again, and gives it back
	Cycles  int           `json:"cycles,omitempty"`  // of each client; 0: until For
	For     time.Duration `json:"for,omitempty"`     // no cycle starts later than this
	Writes  int           `json:"writes"`            // in one critical section
	NoCheck bool          `json:"noCheck,omitempty"`
	// CancelAfter is when a client gives up an acquire by its context; 0: never.
	CancelAfter time.Duration `json:"cancelAfter,omitempty"`
}

// Limits bounds one hold. They are the measure that bounded-hold judges by, and
// no setting of the lock, which may know no limit: that would be the mistake.
type Limits struct {
	Extensions int           `json:"extensions"`
	Hold       time.Duration `json:"hold"` // from the grant to the end of belief
}

// Names of the things in a scenario.

// NodeNames returns n1 … nN.
func (s Scenario) NodeNames() []string { return names("n", s.Topology.Nodes) }

// ClientNames returns the clients' names in order.
func (s Scenario) ClientNames() []string {
	var out []string
	for _, c := range s.Clients {
		out = append(out, c.Name)
	}
	return out
}

// KeyNames returns the locks that the clients work on: lock-1 …
func (s Scenario) KeyNames() []string { return names("lock-", max(s.Workload.Keys, 1)) }

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = prefix + strconv.Itoa(i+1)
	}
	return out
}

// ResourceName is the process name of the protected resource.
const ResourceName = "r1"

// Quorum is the lock's own, or ⌊N/2⌋+1.
func (s Scenario) Quorum() int { return cmp.Or(s.Lock.Votes, s.Topology.Nodes/2+1) }

// ID is the name with its variant, as the command line takes it.
func (s Scenario) ID() string {
	if s.Variant == "" {
		return s.Name
	}
	return s.Name + "/" + s.Variant
}
