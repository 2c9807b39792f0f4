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
//	text ──► tree of nodes, each with its place          (parse.go)
//	     ──► one tree for the base and for each variant  (variants.go)
//	     ──► Scenario, key by key                        (form.go: the keys; shape.go: how to read and write them)
//	     ──► do the parts fit together?                  (check.go)
//
// Schema describes the same table of keys for editors. Check, which holds a run.json to
// the same rules as a file, writes the tree that a scenario would be read from, by that table.
//
// The files, each of which uses only those below it:
//
//	manifest.go    a run.json
//	write.go       the file of a scenario
//	variants.go    variants, overrides, and scenarios for other locks
//	parse.go       the file, its nodes, and errors with their places
//	check.go       do the parts fit together, and is there what they name?
//	form.go        every key that a file may have, with its default
//	shape.go       how each kind of value is read and written
//	scenario.go    the data, and how much of it there may be
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
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
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

// Expectation is what a property should come out as.
type Expectation struct {
	Want  string `json:"want"`            // holds, violated or any
	Cause string `json:"cause,omitempty"` // of a violation: its cause or class
	Node  string `json:"node,omitempty"`  // and the node to blame
	// Implied: the property needs no occasion to be violated. The file doesn't name it, and
	// safety must hold all the same; or what the run puts to the test is left to the dice.
	Implied bool `json:"implied,omitempty"`
	// Follows names the property that this one comes out as, where it was not named itself.
	Follows string `json:"follows,omitempty"`
}

// What can be wanted.
const (
	wantHolds    = "holds"
	wantViolated = "violated"
	wantAny      = "any"
)

// String is an expectation in words.
func (e Expectation) String() string {
	s := e.Want
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	if e.Node != "" {
		s += " at " + e.Node
	}
	return s
}

// Imply fills in what follows from the tier and from other expectations: two holders at once are
// never what one lease lock could have answered, and where they are ruled out,
// so should other answers be that no lease lock gives.
func Imply(expect map[string]Expectation, tier string) {
	for _, property := range required[tier] {
		if _, named := expect[property]; !named {
			expect[property] = implied
		}
	}
	if e, ok := expect[leaseLinearizable]; ok && e.Follows == "" {
		return
	}
	if lead, ok := expect[mutualExclusion]; ok {
		expect[leaseLinearizable] = Expectation{Want: lead.Want, Implied: true, Follows: mutualExclusion}
	}
}

// Safety properties hold unless the scenario says otherwise, and
// lease-linearizable comes out as mutual-exclusion does (Imply). bounded-hold
// needs the section limits.
const (
	mutualExclusion   = "mutual-exclusion"
	leaseLinearizable = "lease-linearizable"
	resourceSafety    = "resource-safety"
	boundedHold       = "bounded-hold"
	faultTolerance    = "fault-tolerance"
	validOnReturn     = "valid-on-return"
)

// excuse lets properties hold without an occasion: what a random plan puts to the test is
// left to the dice, and where nobody need acquire, nothing need be.
func excuse(expect map[string]Expectation) {
	for property, e := range expect {
		if e.Want == wantHolds {
			e.Implied = true
			expect[property] = e
		}
	}
}

// Bound is what a measured number is expected to keep: at least or at most a value,
// or a multiple of what another variant measures with the same seed in the same run.
type Bound struct {
	Is    string  `json:"is"`             // one of Comparisons
	Value float64 `json:"value"`          // or factor
	Than  string  `json:"than,omitempty"` // the other variant; BaseVariant: the scenario without variant
}

// BaseVariant names the scenario itself, in a bound.
const BaseVariant = "base"

// comparisons are the ways in which a number can be bounded, the longer ones first.
var comparisons = []string{">=", "<=", ">", "<"}

// Keeps says whether a number keeps the bound. other is what the other variant has.
func (b Bound) Keeps(x, other float64) bool {
	y := b.Value
	if b.Than != "" {
		y *= other
	}
	switch b.Is {
	case ">=":
		return x >= y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x < y
}

// String is the bound as a scenario file has it.
func (b Bound) String() string {
	switch {
	case b.Than == "":
		return fmt.Sprintf("%s %g", b.Is, b.Value)
	case b.Value == 1:
		return fmt.Sprintf("%s %s", b.Is, b.Than)
	}
	return fmt.Sprintf("%s %g * %s", b.Is, b.Value, b.Than)
}

// Models are the sorts of failures that the plan has, or its dice may bring.
func (s Scenario) Models() (models []string) {
	add := func(k nemesis.Kind) {
		if k.Model != "" && !slices.Contains(models, k.Model) {
			models = append(models, k.Model)
		}
	}
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		add(kind)
	}
	if s.Random != nil {
		for _, c := range s.Random.Choices() {
			add(c.Kind)
		}
	}
	slices.Sort(models)
	return models
}

// Targets lists what a step of the plan hits: links spelled out, the rest by name.
func (s Scenario) Targets(st nemesis.Step) []string {
	kind, _ := nemesis.KindOf(st.Fault.Kind)
	switch {
	case kind.Hits(nemesis.Message) && st.When.Message != nil:
		return []string{st.When.Message.Link}
	case !kind.Hits(nemesis.Link):
		return st.Fault.Targets
	}
	var out []string
	for _, t := range st.Fault.Targets {
		if _, end, ok := nemesis.SplitLink(t); ok && end == nemesis.Replica {
			out = append(out, t)
			continue
		}
		out = append(out, s.links(t)...)
	}
	return out
}

// links spells a client or node out as all its links; a link is itself.
func (s Scenario) links(target string) []string {
	var out []string
	for _, c := range s.Clients {
		for _, n := range s.NodeNames() {
			if l := nemesis.LinkName(c.Name, n); c.reaches(n) && (target == c.Name || target == n || target == l) {
				out = append(out, l)
			}
		}
		if l := nemesis.LinkName(c.Name, ResourceName); target == ResourceName || target == l || target == c.Name+"-resource" {
			out = append(out, l)
		}
	}
	return out
}

// MaxFile is the largest scenario file that is read. The largest in the
// catalogue has a few kilobytes.
const MaxFile = 1 << 20

// Bounds of what one run can carry, each by itself. The catalogue needs five nodes and
// clients, one key and two writes; checkWork bounds what comes of several together.
const (
	maxNodes    = 99
	maxClients  = 999
	maxKeys     = 1000
	maxWrites   = 1000
	maxReenter  = 10
	maxCount    = 1_000_000
	maxVariants = 100
)

// The least durations that are told from nothing: in a file what Redis counts in, and
// in what was scaled a thousandth of it.
const (
	fileUnit = time.Millisecond
	runUnit  = time.Microsecond
)

// maxItems bounds a list, and with it the time that reading a hostile file takes.
const maxItems = 1000

// maxDrawn bounds a plan that dice have drawn; no seed of the catalogue draws a tenth.
const maxDrawn = 10_000

// maxScale is the largest factor for durations, and maxDuration the longest
// duration: together far from overflow.
const (
	maxScale    = 100
	maxDuration = 24 * time.Hour
)

// maxLinks bounds those between clients and nodes; the catalogue has 25.
const maxLinks = 10_000

// Bounds lists in words what one run may have at most.
func Bounds() []string {
	return []string{
		fmt.Sprintf("%d nodes", maxNodes), fmt.Sprintf("%d clients", maxClients), fmt.Sprintf("%d links between them", maxLinks),
		fmt.Sprintf("%d keys", maxKeys), fmt.Sprintf("%d writes in a critical section", maxWrites),
		fmt.Sprintf("%d steps in a plan, %d targets in one", maxItems, maxItems),
		fmt.Sprintf("a duration of %v, and of %v at least where it isn't nothing", maxDuration, fileUnit),
		fmt.Sprintf("%d events, and as many writes, extensions and faults that come again", history.MaxEvents),
	}
}

// CheckRecord says which of the bounds a stored history breaks, so that no file takes more
// time and memory than a run does.
func CheckRecord(h *history.History) error {
	clients, keys := map[string]bool{}, map[string]bool{}
	for _, c := range h.Params.Clients {
		clients[c] = true
	}
	processes := map[string]bool{}
	for i := range h.Events {
		e := &h.Events[i]
		processes[e.Process] = true
		if clients[e.Process] && e.Key != "" {
			keys[e.Key] = true
		}
	}
	var longest, reach, targets int
	for _, r := range h.Params.Reach {
		reach = max(reach, len(r.Nodes))
	}
	for _, s := range h.Params.Steps {
		longest, targets = max(longest, len(s.Targets)), targets+len(s.Targets)
	}
	for _, b := range []struct {
		what      string
		got, most int
	}{
		{"clients", len(h.Params.Clients), maxClients},
		{"nodes", len(h.Params.Nodes), maxNodes},
		{"clients that can't reach every node", len(h.Params.Reach), maxClients},
		{"nodes that a client can reach", reach, maxNodes},
		{"links between clients and nodes", len(h.Params.Clients) * len(h.Params.Nodes), maxLinks},
		{"steps in its plan", len(h.Params.Steps), maxDrawn},
		{"targets in a step of its plan", longest, maxLinks},
		{"targets in its plan", targets, history.MaxEvents},
		{"keys that clients lock", len(keys), maxKeys},
		{"processes", len(processes), maxProcesses},
	} {
		if b.got > b.most {
			return fmt.Errorf("it has %d %s, and a run has at most %d", b.got, b.what, b.most)
		}
	}
	return nil
}

// maxProcesses bounds those that a record names: links, clients, nodes with their replicas,
// and the few that every run has.
const maxProcesses = maxLinks + maxClients + 3*maxNodes + 100

// bound is what a number is expected to keep.
var bound = single("a bound", "write '>= 0.8', or '< 0.2 * NAME' to compare with another variant, or with base",
	textLike(`^ *(>=|<=|>|<) *[-+.0-9a-z]+( *\* *[-a-z0-9]+)? *$`), parseBound)

// parseBound is the reverse of Bound.String. wrong is what is wrong, "" if nothing is.
func parseBound(text string) (b Bound, wrong string) {
	rest := strings.TrimSpace(text)
	for _, is := range comparisons {
		if after, ok := strings.CutPrefix(rest, is); ok {
			b.Is, rest = is, strings.TrimSpace(after)
			break
		}
	}
	if b.Is == "" {
		return b, quote(text) + " has no comparison"
	}
	value, than, product := strings.Cut(rest, "*")
	if !product && namePattern.MatchString(rest) && !numeric(rest) {
		value, than, product = "1", rest, true
	}
	value, b.Than = strings.TrimSpace(value), strings.TrimSpace(than)
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || v-v != 0: // neither infinite nor no number
		return b, quote(value) + " is no number"
	case product && (!namePattern.MatchString(b.Than) || numeric(b.Than)):
		return b, quote(b.Than) + " is no variant's name"
	case len(b.Than) > longestName:
		return b, quote(b.Than) + " is too long for a variant's name"
	case product && v <= 0:
		return b, "the factor " + quote(value) + " is not positive"
	}
	b.Value = v
	return b, ""
}

func numeric(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
