// Package scenario defines an experiment as plain data, and its YAML file format.
//
// A Scenario describes the contending clients, the faults to inject, and the expected results.
// Parse reads a scenario file, and Write is its inverse. An Error reports a mistake in a file, with
// its line, its column and the allowed values. KnownNames supplies the names that a file may use but
// that this package doesn't define. A Manifest is the run.json of one run: the scenario with all
// values drawn and scaled, and everything else needed to repeat the run.
//
// A file is read in four steps. Variants and overrides are applied to the YAML tree, so that one
// reader handles all of them and every error can point to the offending line:
//
//	text ──► tree of nodes with their positions          (parse.go)
//	     ──► one tree for the base and for each variant  (variants.go)
//	     ──► Scenario, key by key                        (form.go: the keys; shape.go: how to read and write them)
//	     ──► are the parts consistent?                   (check.go)
//
// Schema exports the table of keys as a JSON Schema for editors. To apply the rules for files to a
// run.json, Check writes the scenario's YAML tree using that table and reads it back.
//
// Each of these files uses only those below it:
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
// The YAML parser is go.yaml.in/yaml/v3. goccy/go-yaml reports positions, too, but its errors
// mention Go types, it accepts aliases and reads 010 as 8, and it provides neither the allowed
// values nor the schema. It would only save us the code that prints excerpts.
//
// Deliberately missing: code that runs scenarios (package harness), the names of locks, properties
// and causes (KnownNames), and any judgment of a run's outcome.
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
// results.
type Scenario struct {
	Name    string   `json:"name"`
	Variant string   `json:"variant,omitempty"`
	Claim   string   `json:"claim"`
	Source  string   `json:"source,omitempty"` // of the claim
	Tags    []string `json:"tags,omitempty"`
	// Debate maps the parties in the debate about the claim to their stances.
	Debate map[string]string `json:"debate,omitempty"`
	// Tier selects other kinds of locks that must meet Expect, too; see ForLock.
	Tier string `json:"tier,omitempty"`
	// Cures lists the scenarios whose damage this one avoids.
	Cures    []string `json:"cures,omitempty"`
	Topology Topology `json:"topology"`

	Lock     lock.Settings `json:"lock"`
	Clients  []Client      `json:"clients"`
	Workload Workload      `json:"workload"`
	Plan     nemesis.Plan  `json:"plan,omitempty"`
	// Random describes how WithRandomPlan draws the plan. If nil, the plan is fixed.
	Random *nemesis.Random `json:"random,omitempty"`
	Limits Limits          `json:"limits,omitzero"`
	Limit  time.Duration   `json:"limit"`           // true time after which the run is stopped
	Exact  bool            `json:"exact,omitempty"` // events must coincide to the microsecond
	Scale  float64         `json:"scale,omitempty"` // fixed factor for all durations on real backends; 0: the backend's default

	Expect       map[string]Expectation `json:"expect"`
	Numbers      map[string]Bound       `json:"numbers,omitempty"`
	MayBeVacuous bool                   `json:"vacuous,omitempty"` // the run is valid even if no client acquires the lock
}

// parties returns the parties whose claims a scenario may test: Martin Kleppmann and antirez, who
// argued about Redlock in 2016, and the Redis documentation.
func parties() []string { return []string{"kleppmann", "antirez", "redis"} }

// A party's stances on a claim.
const (
	stanceAffirms = "affirms"
	stanceDenies  = "denies"
)

// Topology describes the lock servers.
type Topology struct {
	Nodes int `json:"nodes"`
	// Sizes describes the numbers of nodes for which the scenario makes sense: a number or a range, and
	// odd or even, as in "3.. odd". "" means any.
	Sizes string `json:"sizes,omitempty"`
	// Server is the software that the nodes run: an element of lock.Servers, or "" for Redis.
	Server      string `json:"server,omitempty"`
	Persistence string `json:"persistence"`        // none, everysec, always or no
	Expiry      string `json:"expiry,omitempty"`   // clock that expires keys: wall (as in Redis) or monotonic; "": wall
	Replicas    int    `json:"replicas,omitempty"` // asynchronous replicas per node: 0 or 1
	// DownAfter is how long a master must be unreachable before its sentinels consider it down.
	// 0 means that there are no sentinels.
	DownAfter time.Duration `json:"downAfter,omitempty"`
	// Image is the container image of the nodes, as in redis:7, on backends that use containers.
	// "" means the backend's default.
	Image string `json:"image,omitempty"`
	// Addresses lists the nodes in the lock's configuration, if that configuration is wrong.
	Addresses []string `json:"addresses,omitempty"`
}

// ExpiryMonotonic is the expiry clock that is unaffected by changes to the wall clock.
const ExpiryMonotonic = "monotonic"

// Persistence policies. PersistNone writes nothing to disk, and PersistAlways syncs each write
// before the node replies.
const (
	PersistNone   = "none"
	PersistAlways = "always"
)

// defaultDownAfter is the value of DownAfter if sentinels are needed but the file doesn't set it.
// Redis's own default of 30 s is longer than most leases.
const defaultDownAfter = time.Second

type Client struct {
	Name   string         `json:"name"`
	Start  *nemesis.Event `json:"start,omitempty"`  // event at which the client starts
	Delay  time.Duration  `json:"delay,omitempty"`  // or the time at which it starts
	Reach  []string       `json:"reach,omitempty"`  // nodes that the client can reach; nil: all
	TTL    time.Duration  `json:"ttl,omitempty"`    // overrides the lock's
	Think  *client.Range  `json:"think,omitempty"`  // overrides the workload's
	Hold   *client.Range  `json:"hold,omitempty"`   // overrides the workload's
	Cycles *int           `json:"cycles,omitempty"` // overrides the workload's
	// CancelAfter overrides the workload's.
	CancelAfter *time.Duration `json:"cancelAfter,omitempty"`
}

func (c Client) canReach(node string) bool { return c.Reach == nil || slices.Contains(c.Reach, node) }

// TTLs returns the TTLs that clients use, sorted, each once.
func TTLs(s Scenario) []time.Duration {
	var all []time.Duration
	for _, c := range s.Clients {
		all = append(all, cmp.Or(c.TTL, s.Lock.TTL))
	}
	if len(all) == 0 {
		return []time.Duration{s.Lock.TTL}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Workload describes what each client does.
type Workload struct {
	Kind    string        `json:"kind"` // read-modify-write
	Keys    int           `json:"keys"`
	Fence   string        `json:"fence"`
	Think   client.Range  `json:"think"`
	Hold    client.Range  `json:"hold"`
	Prepare client.Range  `json:"prepare,omitzero"`
	Extend  time.Duration `json:"extend,omitempty"`  // interval between extensions of a hold; 0: never extended
	Reenter int           `json:"reenter,omitempty"` // how many times a holder reacquires and releases its lock
	Cycles  int           `json:"cycles,omitempty"`  // cycles per client; 0: until For
	For     time.Duration `json:"for,omitempty"`     // no cycle starts after this time
	Writes  int           `json:"writes"`            // writes per critical section
	NoCheck bool          `json:"noCheck,omitempty"`
	// CancelAfter is how long a client waits before it cancels an acquire. 0 means forever.
	CancelAfter time.Duration `json:"cancelAfter,omitempty"`
}

// Limits bounds a single hold. The property bounded-hold is checked against these limits rather
// than the lock's settings, because the mistake may be that the lock has no limit at all.
type Limits struct {
	Extensions int           `json:"extensions"`
	Hold       time.Duration `json:"hold"` // from the grant until the client stops believing that it holds the lock
}

// NodeNames returns the nodes' names: n1, n2, …
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

// ResourceName is the protected resource's process name.
const ResourceName = "r1"

// Quorum returns the lock's own quorum size, or ⌊N/2⌋+1 if it has none.
func (s Scenario) Quorum() int { return cmp.Or(s.Lock.Votes, s.Topology.Nodes/2+1) }

// ID returns the scenario's name and variant in the form used on the command line.
func (s Scenario) ID() string {
	if s.Variant == "" {
		return s.Name
	}
	return s.Name + "/" + s.Variant
}

// Expectation is a property's expected outcome.
type Expectation struct {
	Want  string `json:"want"`            // holds, violated or any
	Cause string `json:"cause,omitempty"` // expected cause or class of the violation
	Node  string `json:"node,omitempty"`  // node expected to cause the violation
	// Implied means that the property passes even if the run didn't exercise it, because the file
	// doesn't list the property, or because the plan is random.
	Implied bool `json:"implied,omitempty"`
	// LeadProperty is the property whose outcome this one must share if the file doesn't list it.
	LeadProperty string `json:"follows,omitempty"`
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

// AddImplied adds the expectations that follow from the tier and from other expectations. Replies
// that lead to two simultaneous holders can't come from a single lease lock, and a scenario that
// rules out two simultaneous holders rules out all other replies that a lease lock can't give.
func AddImplied(expect map[string]Expectation, tier string) {
	for _, property := range requiredProperties[tier] {
		if _, named := expect[property]; !named {
			expect[property] = impliedExpectation
		}
	}
	if e, ok := expect[leaseLinearizable]; ok && e.LeadProperty == "" {
		return
	}
	if lead, ok := expect[mutualExclusion]; ok {
		expect[leaseLinearizable] = Expectation{Want: lead.Want, Implied: true, LeadProperty: mutualExclusion}
	}
}

// Properties with special rules: safety properties must hold unless the scenario says otherwise,
// lease-linearizable has the same expected outcome as mutual-exclusion (AddImplied), and
// bounded-hold needs the section limits.
const (
	mutualExclusion   = "mutual-exclusion"
	leaseLinearizable = "lease-linearizable"
	resourceSafety    = "resource-safety"
	boundedHold       = "bounded-hold"
	faultTolerance    = "fault-tolerance"
	validOnReturn     = "valid-on-return"
)

// allowUnexercised lets properties pass without having been exercised. Chance decides what a random
// plan exercises, and a run without an acquire may exercise nothing.
func allowUnexercised(expect map[string]Expectation) {
	for property, e := range expect {
		if e.Want == wantHolds {
			e.Implied = true
			expect[property] = e
		}
	}
}

// Bound limits a measured number, either to a value or to a multiple of the number that another
// variant measures with the same seed.
type Bound struct {
	Operator string  `json:"is"`             // element of operators
	Value    float64 `json:"value"`          // or the factor
	Variant  string  `json:"than,omitempty"` // other variant, or BaseVariant
}

// BaseVariant refers to the scenario itself in a bound.
const BaseVariant = "base"

// operators lists the comparison operators of bounds, longest first.
var operators = []string{">=", "<=", ">", "<"}

// Allows reports whether x satisfies the bound. other is the number measured by the other variant.
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

// Targets lists the targets of a step, with clients and nodes expanded to their links if the fault
// affects links.
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

// links returns all links of a client or node. A link expands to itself.
func (s Scenario) links(target string) []string {
	var out []string
	for _, c := range s.Clients {
		for _, n := range s.NodeNames() {
			if l := nemesis.LinkName(c.Name, n); c.canReach(n) && (target == c.Name || target == n || target == l) {
				out = append(out, l)
			}
		}
		if l := nemesis.LinkName(c.Name, ResourceName); target == ResourceName || target == l || target == c.Name+"-resource" {
			out = append(out, l)
		}
	}
	return out
}

// MaxFile is the maximum size of a scenario file in bytes. The largest file in the catalog has a
// few kilobytes.
const MaxFile = 1 << 20

// Limits on the size of a run. The catalog needs at most five nodes, five clients, one key and two
// writes. checkWork limits combinations of these numbers.
const (
	MaxNodes    = 99
	maxClients  = 999
	maxKeys     = 1000
	maxWrites   = 1000
	maxReenter  = 10
	maxCount    = 1_000_000
	maxVariants = 100
)

// Minimum nonzero durations: Redis's resolution in a file, and a thousandth of that after scaling.
const (
	minFileDuration = time.Millisecond
	minRunDuration  = time.Microsecond
)

// maxItems limits the length of a list, and thus the time it takes to read a hostile file.
const maxItems = 1000

// maxDrawnSteps limits the length of a random plan. No scenario in the catalog draws even a tenth
// of that with any seed.
const maxDrawnSteps = 10_000

// Maximum scale factor and maximum duration. Their product is far from overflowing.
const (
	maxScale    = 100
	maxDuration = 24 * time.Hour
)

// maxLinks limits the number of links between clients and nodes. The catalog needs at most 25.
const maxLinks = 10_000

// SizeLimits describes how large a run may be.
func SizeLimits() []string {
	return []string{
		fmt.Sprintf("%d nodes", MaxNodes), fmt.Sprintf("%d clients", maxClients), fmt.Sprintf("%d links between them", maxLinks),
		fmt.Sprintf("%d keys", maxKeys), fmt.Sprintf("%d writes in a critical section", maxWrites),
		fmt.Sprintf("%d steps per plan, %d targets per step", maxItems, maxItems),
		fmt.Sprintf("durations of at most %v, and at least %v unless zero", maxDuration, minFileDuration),
		fmt.Sprintf("%d events, and the same number of writes, extensions and repeated faults", history.MaxEvents),
	}
}

// CheckHistorySize returns an error if a stored history exceeds a size limit, so that no file needs
// more time and memory than a run's history.
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
	var maxTargets, maxReach, numTargets int
	for _, r := range h.Params.Reach {
		maxReach = max(maxReach, len(r.Nodes))
	}
	for _, s := range h.Params.Steps {
		maxTargets, numTargets = max(maxTargets, len(s.Targets)), numTargets+len(s.Targets)
	}
	for _, b := range []struct {
		noun         string
		count, limit int
	}{
		{"clients", len(h.Params.Clients), maxClients},
		{"nodes", len(h.Params.Nodes), MaxNodes},
		{"clients that can't reach every node", len(h.Params.Reach), maxClients},
		{"nodes that a client can reach", maxReach, MaxNodes},
		{"clients with their own TTL", len(h.Params.TTLs), maxClients},
		{"links between clients and nodes", len(h.Params.Clients) * len(h.Params.Nodes), maxLinks},
		{"steps in its plan", len(h.Params.Steps), maxDrawnSteps},
		{"targets in a step of its plan", maxTargets, maxLinks},
		{"targets in its plan", numTargets, history.MaxEvents},
		{"keys that clients lock", len(keys), maxKeys},
		{"processes", len(processes), maxProcesses},
	} {
		if b.count > b.limit {
			return fmt.Errorf("it has %d %s, but a run has at most %d", b.count, b.noun, b.limit)
		}
	}
	return nil
}

// maxProcesses limits the number of processes in a history: links, clients, nodes with their
// replicas, and a few others.
const maxProcesses = maxLinks + maxClients + 3*MaxNodes + 100

var bound = newScalar("a bound", "write '>= 0.8', or '< 0.2 * NAME' to compare with another variant or with base",
	patternSchema(`^ *(>=|<=|>|<) *[-+.0-9a-z]+( *\* *[-a-z0-9]+)? *$`), parseBound)

// parseBound is the inverse of Bound.String. errText describes a mistake, or is "".
func parseBound(text string) (b Bound, errText string) {
	rest := strings.TrimSpace(text)
	for _, op := range operators {
		if after, ok := strings.CutPrefix(rest, op); ok {
			b.Operator, rest = op, strings.TrimSpace(after)
			break
		}
	}
	if b.Operator == "" {
		return b, quote(text) + " has no comparison operator"
	}
	value, variant, isProduct := strings.Cut(rest, "*")
	if !isProduct && namePattern.MatchString(rest) && !isNumber(rest) {
		value, variant, isProduct = "1", rest, true
	}
	value, b.Variant = strings.TrimSpace(value), strings.TrimSpace(variant)
	v, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || v-v != 0: // Inf or NaN
		return b, quote(value) + " is not a number"
	case isProduct && (!namePattern.MatchString(b.Variant) || isNumber(b.Variant)):
		return b, quote(b.Variant) + " is not the name of a variant"
	case len(b.Variant) > maxNameLen:
		return b, quote(b.Variant) + " is too long for a variant's name"
	case isProduct && v <= 0:
		return b, "the factor " + quote(value) + " is not positive"
	}
	b.Value = v
	return b, ""
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
