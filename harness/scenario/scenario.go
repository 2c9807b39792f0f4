// Package scenario defines an experiment as plain data, and the YAML file format for it.
//
// A Scenario describes the contending clients, the faults to inject, and the expected results.
// Parse reads a scenario file. An Error reports a mistake in it, with line, column and allowed
// values. Write is the inverse of Parse. Known supplies the names that a file may use and that
// this package can't know. A Manifest is the run.json of one run: the scenario with all values
// drawn and scaled, and everything else needed to repeat the run.
//
// A file is read in four steps. Variants and overrides are applied to the YAML tree, so that one
// reader handles all of them and every error can point at the offending line:
//
//	text ──► tree of nodes with their positions          (parse.go)
//	     ──► one tree for the base and for each variant  (variants.go)
//	     ──► Scenario, key by key                        (form.go: the keys; shape.go: how to read and write them)
//	     ──► are the parts consistent?                   (check.go)
//
// Schema exports the same table of keys as a JSON Schema for editors. Check applies the rules for
// files to a run.json: it writes the YAML tree of the scenario using that table and reads it back.
//
// The files, each of which uses only those below it:
//
//	manifest.go    run.json
//	write.go       writing a scenario file
//	variants.go    variants, overrides, and scenarios for other locks
//	parse.go       scenario files, their nodes, and errors with positions
//	check.go       consistency of the parts, and references to names
//	form.go        every key of a file, with its default
//	shape.go       how each kind of value is read and written
//	scenario.go    the data and its size limits
//
// The YAML parser is go.yaml.in/yaml/v3. goccy/go-yaml also reports positions, but its errors
// mention Go types, it accepts aliases and reads 010 as 8, and it would provide neither the
// allowed values nor the schema. It would only save us the code that prints excerpts.
//
// Deliberately missing: code that runs scenarios (package harness), the names of locks,
// properties and causes (Known), and any judgment of a run's outcome.
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

// Scenario is one experiment: the contending clients, the faults to inject, and the expected
// results. It is plain data with a YAML file format.
type Scenario struct {
	Name    string   `json:"name"`
	Variant string   `json:"variant,omitempty"`
	Claim   string   `json:"claim"`
	Source  string   `json:"source,omitempty"` // of the claim; "" in a file of the user's own
	Tags    []string `json:"tags,omitempty"`
	// Debate records who affirms the claim and who denies it, by the names from parties.
	Debate map[string]string `json:"debate,omitempty"`
	// Tier selects the other kinds of locks that Expect also applies to. See ForLock.
	Tier string `json:"tier,omitempty"`
	// Cures lists the scenarios whose damage this one shows how to avoid.
	Cures    []string `json:"cures,omitempty"`
	Topology Topology `json:"topology"`

	Lock     lock.Settings `json:"lock"`
	Clients  []Client      `json:"clients"`
	Workload Workload      `json:"workload"`
	Plan     nemesis.Plan  `json:"plan,omitempty"`
	// Random describes how WithRandomPlan draws the plan. If nil, the plan is fixed.
	Random *nemesis.Random `json:"random,omitempty"`
	Limits Limits          `json:"limits,omitzero"`
	Limit  time.Duration   `json:"limit"`           // the run is stopped after this true time
	Exact  bool            `json:"exact,omitempty"` // events must coincide to the microsecond
	Scale  float64         `json:"scale,omitempty"` // fixed factor by which all durations are multiplied on real backends; 0: the backend's default

	Expect  map[string]Expectation `json:"expect"`
	Numbers map[string]Bound       `json:"numbers,omitempty"`
	Vacuous bool                   `json:"vacuous,omitempty"` // the run counts even if no client acquires the lock
}

// parties returns the parties whose claims a scenario may test: Martin Kleppmann and antirez, who
// argued over Redlock in 2016, and the Redis documentation.
func parties() []string { return []string{"kleppmann", "antirez", "redis"} }

// A party's stance on a scenario's claim.
const (
	affirms = "affirms"
	denies  = "denies"
)

// Topology describes the lock servers.
type Topology struct {
	Nodes int `json:"nodes"`
	// Sizes describes the numbers of nodes for which the scenario makes sense: a number or a range, and
	// odd or even, as in "3.. odd". "" means any.
	Sizes string `json:"sizes,omitempty"`
	// Server is the software that the nodes run, from lock.Servers. "" means Redis.
	Server      string `json:"server,omitempty"`
	Persistence string `json:"persistence"`        // none, everysec, always or no
	Expiry      string `json:"expiry,omitempty"`   // clock used to expire keys: wall (as in Redis) or monotonic; "": wall
	Replicas    int    `json:"replicas,omitempty"` // asynchronous replicas per node: 0 or 1
	// DownAfter is how long a master must be unreachable before its sentinels consider it down.
	// 0 means that there are no sentinels.
	DownAfter time.Duration `json:"downAfter,omitempty"`
	// Image is the container image of the nodes, as in redis:7, on backends that use containers.
	// "" means the backend's default.
	Image string `json:"image,omitempty"`
	// Addresses lists the nodes as they appear in the lock's configuration, if that is wrong.
	Addresses []string `json:"addresses,omitempty"`
}

// ExpiryMonotonic is an expiry clock that is unaffected by changes to the wall clock.
const ExpiryMonotonic = "monotonic"

// Persistence policies: PersistNone writes nothing to disk, PersistAlways syncs each write before
// replying.
const (
	PersistNone   = "none"
	PersistAlways = "always"
)

// defaultDownAfter is the value of DownAfter if sentinels are needed and the file doesn't set it.
// Redis's own default of 30 s is longer than most leases.
const defaultDownAfter = time.Second

// Client is one contending client.
type Client struct {
	Name   string         `json:"name"`
	Start  *nemesis.Event `json:"start,omitempty"`  // the event it waits for
	Delay  time.Duration  `json:"delay,omitempty"`  // or the time of its start
	Reach  []string       `json:"reach,omitempty"`  // nodes it can talk to; nil: all
	Think  *client.Range  `json:"think,omitempty"`  // these three override the workload's
	Hold   *client.Range  `json:"hold,omitempty"`   //
	Cycles *int           `json:"cycles,omitempty"` //
	// CancelAfter overrides the workload's, too.
	CancelAfter *time.Duration `json:"cancelAfter,omitempty"`
}

func (c Client) reaches(node string) bool { return c.Reach == nil || slices.Contains(c.Reach, node) }

// Workload describes what each client does.
type Workload struct {
	Kind    string        `json:"kind"` // read-modify-write
	Keys    int           `json:"keys"`
	Fence   string        `json:"fence"`
	Think   client.Range  `json:"think"`
	Hold    client.Range  `json:"hold"`
	Prepare client.Range  `json:"prepare,omitzero"`
	Extend  time.Duration `json:"extend,omitempty"`  // how often the lock is extended while held; 0: never
	Reenter int           `json:"reenter,omitempty"` // how many times a holder reacquires and releases its lock
	Cycles  int           `json:"cycles,omitempty"`  // per client; 0: until For
	For     time.Duration `json:"for,omitempty"`     // no cycle starts later than this
	Writes  int           `json:"writes"`            // per critical section
	NoCheck bool          `json:"noCheck,omitempty"`
	// CancelAfter is how long a client waits before it cancels an acquire. 0 means forever.
	CancelAfter time.Duration `json:"cancelAfter,omitempty"`
}

// Limits bounds a single hold. The property bounded-hold is judged by these limits rather than by
// the lock's settings, because the mistake may be that the lock has no limit at all.
type Limits struct {
	Extensions int           `json:"extensions"`
	Hold       time.Duration `json:"hold"` // from the grant to the end of belief
}

// Names of the processes and locks in a scenario.

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

// KeyNames returns the names of the locks that the clients use: lock-1, lock-2, …
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

// Quorum returns the lock's own quorum, or ⌊N/2⌋+1 if it has none.
func (s Scenario) Quorum() int { return cmp.Or(s.Lock.Votes, s.Topology.Nodes/2+1) }

// ID returns the scenario's name with its variant, as used on the command line.
func (s Scenario) ID() string {
	if s.Variant == "" {
		return s.Name
	}
	return s.Name + "/" + s.Variant
}

// Expectation is the expected outcome of a property.
type Expectation struct {
	Want  string `json:"want"`            // holds, violated or any
	Cause string `json:"cause,omitempty"` // expected cause or class of the violation
	Node  string `json:"node,omitempty"`  // the node that is expected to cause the violation
	// Implied means that the property passes even if the run didn't exercise it: the file doesn't
	// mention it but safety must hold anyway, or the plan is random.
	Implied bool `json:"implied,omitempty"`
	// Follows names the property whose outcome this one must share, if the file doesn't list it.
	Follows string `json:"follows,omitempty"`
}

// Possible values of Expectation.Want.
const (
	wantHolds    = "holds"
	wantViolated = "violated"
	wantAny      = "any"
)

// String describes an expectation, as in "violated: gc-pause at n1".
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

// AddImplied adds the expectations that follow from the tier and from other expectations. Answers
// that lead to two holders at once can't come from a single lease lock. A scenario that rules out
// two holders also rules out all other answers that a lease lock can't give.
func AddImplied(expect map[string]Expectation, tier string) {
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

// Safety properties must hold unless the scenario says otherwise, and lease-linearizable has the
// same expected outcome as mutual-exclusion (AddImplied). bounded-hold needs the section limits.
const (
	mutualExclusion   = "mutual-exclusion"
	leaseLinearizable = "lease-linearizable"
	resourceSafety    = "resource-safety"
	boundedHold       = "bounded-hold"
	faultTolerance    = "fault-tolerance"
	validOnReturn     = "valid-on-return"
)

// allowUnexercised lets properties pass without having been exercised: chance decides what a
// random plan exercises, and a run without any acquire may exercise nothing.
func allowUnexercised(expect map[string]Expectation) {
	for property, e := range expect {
		if e.Want == wantHolds {
			e.Implied = true
			expect[property] = e
		}
	}
}

// Bound limits a measured number: by a value, or by a multiple of the number that another variant
// measures with the same seed in the same run.
type Bound struct {
	Operator string  `json:"is"`             // one of operators
	Value    float64 `json:"value"`          // or the factor
	Variant  string  `json:"than,omitempty"` // the other variant, or BaseVariant
}

// BaseVariant stands for the scenario itself in a bound.
const BaseVariant = "base"

// operators lists the comparison operators of bounds, longest first.
var operators = []string{">=", "<=", ">", "<"}

// Allows reports whether x satisfies the bound. other is the other variant's number.
func (b Bound) Allows(x, other float64) bool {
	y := b.Value
	if b.Variant != "" {
		y *= other
	}
	switch b.Operator {
	case ">=":
		return x >= y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x < y
}

// String returns the bound as written in a scenario file.
func (b Bound) String() string {
	switch {
	case b.Variant == "":
		return fmt.Sprintf("%s %g", b.Operator, b.Value)
	case b.Value == 1:
		return fmt.Sprintf("%s %s", b.Operator, b.Variant)
	}
	return fmt.Sprintf("%s %g * %s", b.Operator, b.Value, b.Variant)
}

// FaultModels returns the failure models of all faults that the plan contains or may draw.
func (s Scenario) FaultModels() (models []string) {
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

// Targets lists what a step of the plan hits, with clients and nodes expanded to their links if the
// fault affects links.
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

// links expands a client or node to all of its links. A link expands to itself.
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

// MaxFile is the maximum size of a scenario file in bytes. The largest in the catalog has a few
// kilobytes.
const MaxFile = 1 << 20

// Limits on the size of a single run. The catalog needs no more than five nodes, five clients,
// one key and two writes. checkWork limits combinations of them.
const (
	MaxNodes    = 99
	maxClients  = 999
	maxKeys     = 1000
	maxWrites   = 1000
	maxReenter  = 10
	maxCount    = 1_000_000
	maxVariants = 100
)

// The shortest durations other than zero: in a file the resolution of Redis, and after scaling a
// thousandth of that.
const (
	minFileDuration = time.Millisecond
	minRunDuration  = time.Microsecond
)

// maxItems limits the length of a list, and thus the time it takes to read a hostile file.
const maxItems = 1000

// maxDrawnSteps limits the length of a random plan. No scenario of the catalog draws even a tenth
// of it with any seed.
const maxDrawnSteps = 10_000

// maxScale is the largest factor for durations, and maxDuration the longest duration. Their
// product is far from overflowing.
const (
	maxScale    = 100
	maxDuration = 24 * time.Hour
)

// maxLinks limits the number of links between clients and nodes. The catalog has up to 25.
const maxLinks = 10_000

// SizeLimits describes how large a single run may be.
func SizeLimits() []string {
	return []string{
		fmt.Sprintf("%d nodes", MaxNodes), fmt.Sprintf("%d clients", maxClients), fmt.Sprintf("%d links between them", maxLinks),
		fmt.Sprintf("%d keys", maxKeys), fmt.Sprintf("%d writes in a critical section", maxWrites),
		fmt.Sprintf("%d steps in a plan, %d targets in one", maxItems, maxItems),
		fmt.Sprintf("durations of at most %v, and of at least %v unless zero", maxDuration, minFileDuration),
		fmt.Sprintf("%d events, and the same number of writes, extensions and repeated faults", history.MaxEvents),
	}
}

// CheckHistorySize reports which size limit a stored history exceeds, so that no file needs more
// time and memory than the history of a run.
func CheckHistorySize(h *history.History) error {
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
		{"nodes", len(h.Params.Nodes), MaxNodes},
		{"clients that can't reach every node", len(h.Params.Reach), maxClients},
		{"nodes that a client can reach", reach, MaxNodes},
		{"links between clients and nodes", len(h.Params.Clients) * len(h.Params.Nodes), maxLinks},
		{"steps in its plan", len(h.Params.Steps), maxDrawnSteps},
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

// maxProcesses limits the number of processes in a history: links, clients, nodes with their
// replicas, and a few that every run has.
const maxProcesses = maxLinks + maxClients + 3*MaxNodes + 100

// bound reads the bound of a number.
var bound = newScalar("a bound", "write '>= 0.8', or '< 0.2 * NAME' to compare with another variant or with base",
	textLike(`^ *(>=|<=|>|<) *[-+.0-9a-z]+( *\* *[-a-z0-9]+)? *$`), parseBound)

// parseBound is the inverse of Bound.String. wrong describes the mistake, or is "".
func parseBound(text string) (b Bound, wrong string) {
	rest := strings.TrimSpace(text)
	for _, is := range operators {
		if after, ok := strings.CutPrefix(rest, is); ok {
			b.Operator, rest = is, strings.TrimSpace(after)
			break
		}
	}
	if b.Operator == "" {
		return b, quote(text) + " has no comparison"
	}
	value, than, product := strings.Cut(rest, "*")
	if !product && namePattern.MatchString(rest) && !isNumber(rest) {
		value, than, product = "1", rest, true
	}
	value, b.Variant = strings.TrimSpace(value), strings.TrimSpace(than)
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || v-v != 0: // Inf or NaN
		return b, quote(value) + " is not a number"
	case product && (!namePattern.MatchString(b.Variant) || isNumber(b.Variant)):
		return b, quote(b.Variant) + " is not the name of a variant"
	case len(b.Variant) > maxNameLen:
		return b, quote(b.Variant) + " is too long for a variant's name"
	case product && v <= 0:
		return b, "the factor " + quote(value) + " is not positive"
	}
	b.Value = v
	return b, ""
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
