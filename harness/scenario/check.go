package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// checkConsistency checks rules that involve more than one key. It sets default fault modes, and
// settings that follow from the lock kind.
func checkConsistency(s *Scenario, k KnownNames) error {
	s.Lock = s.Lock.ForKind(k.Kinds[s.Lock.Kind], s.Topology.Nodes)
	if s.Lock.Kind == brokenLock && s.Lock.Mistake == "" {
		return pathProblem("lock.kind", suggest("", "add mistake: and one of these", k.Mistakes), "lock kind %q requires a mistake", brokenLock)
	}
	if err := checkOptions(s, k); err != nil {
		return err
	}
	for _, check := range []func(*Scenario) error{checkLock, checkAddresses, checkClients, checkStarts, checkWorkload, checkPlan, checkRandom, checkExpect, checkWork} {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func checkOptions(s *Scenario, k KnownNames) error {
	var optionNames []string
	values := map[string][]string{}
	for _, o := range k.Kinds[s.Lock.Kind].Options {
		optionNames = append(optionNames, o.Name)
		values[o.Name] = o.Values
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lock.Options)) {
		switch {
		case len(optionNames) == 0:
			return pathProblem("lock.options", "leave it out", "lock kind %q has no options", s.Lock.Kind)
		case !slices.Contains(optionNames, name):
			return pathProblem("lock.options."+name, suggest(name, "can be set", optionNames), "lock kind %q has no option %q", s.Lock.Kind, name)
		case !slices.Contains(values[name], s.Lock.Options[name]):
			return pathProblem("lock.options."+name, "use one of "+strings.Join(values[name], ", "), "lock kind %q does not support %s=%s", s.Lock.Kind, name, s.Lock.Options[name])
		}
	}
	return nil
}

func checkLock(s *Scenario) error {
	l := s.Lock
	switch {
	case l.Kind != brokenLock && l.Mistake != "":
		return pathProblem("lock.mistake", "use kind: broken, or leave the mistake out", "lock kind %q has no mistakes", l.Kind)
	case l.Timeout >= l.TTL/2:
		return pathProblem("lock.timeout", fmt.Sprintf("use a timeout of less than %v, half the TTL", l.TTL/2),
			"a node timeout of %v is too long for a TTL of %v", l.Timeout, l.TTL)
	}
	return nil
}

// checkClientTTL applies the rules for the lock's TTL to a client's own.
func checkClientTTL(s *Scenario, c Client) error {
	path := "clients." + c.Name + ".ttl"
	switch {
	case c.TTL == 0:
		return nil
	case s.Lock.Timeout >= c.TTL/2:
		return pathProblem(path, fmt.Sprintf("use a TTL of more than %v, twice the timeout", 2*s.Lock.Timeout),
			"a TTL of %v is too short for a node timeout of %v", c.TTL, s.Lock.Timeout)
	case s.Workload.Extend >= c.TTL:
		return pathProblem(path, fmt.Sprintf("use a TTL well above workload.extend, %v", s.Workload.Extend),
			"the first extension, after %v, is too late for a TTL of %v", s.Workload.Extend, c.TTL)
	}
	return nil
}

func checkAddresses(s *Scenario) error {
	for i, node := range s.Topology.Addresses {
		if !s.hasNode(node) {
			return pathProblem(fmt.Sprintf("topology.addresses.%d", i+1), s.nodesHint(), "there is no node %s", node)
		}
	}
	return nil
}

func checkClients(s *Scenario) error {
	for _, c := range s.Clients {
		for i, node := range c.Reach {
			if !s.hasNode(node) {
				return pathProblem(fmt.Sprintf("clients.%s.reach.%d", c.Name, i+1), s.nodesHint(), "there is no node %s", node)
			}
		}
		if err := checkClientTTL(s, c); err != nil {
			return err
		}
		if c.Start == nil {
			if c.Delay >= s.Limit {
				return pathProblem("clients."+c.Name+".start", "start it sooner, or set a longer limit", "%s starts at %v, but the run ends at %v", c.Name, c.Delay, s.Limit)
			}
			continue
		}
		if err := checkEvent(s, fmt.Sprintf("clients.%s.start", c.Name), *c.Start); err != nil {
			return err
		}
	}
	return nil
}

// checkStarts rejects clients that wait for each other in a cycle and would never start.
func checkStarts(s *Scenario) error {
	awaitedClient := map[string]string{}
	for _, c := range s.Clients {
		if c.Start != nil {
			awaitedClient[c.Name] = c.Start.Client
		}
	}
	for _, c := range s.Clients {
		seen := []string{c.Name}
		for next := awaitedClient[c.Name]; next != ""; next = awaitedClient[next] {
			seen = append(seen, next)
			if next == c.Name {
				return pathProblem("clients."+c.Name+".start.client", "give one of them a start time, as in start: 0s",
					"%s waits for itself: %s", c.Name, strings.Join(seen, " waits for "))
			}
			if len(seen) > len(s.Clients) {
				break // a cycle without c is reported when its own members are checked
			}
		}
	}
	return nil
}

func checkWorkload(s *Scenario) error {
	switch w := s.Workload; {
	case w.Fence == client.FenceToken && !s.Lock.Fence:
		return pathProblem("workload.fence", "set lock.fence: true; only the lock can issue tokens", "workload.fence requires a lock that issues fencing tokens")
	case w.Extend >= s.Lock.TTL:
		return pathProblem("workload.extend", fmt.Sprintf("use an interval well below the TTL of %v", s.Lock.TTL),
			"the first extension, after %v, is too late for a TTL of %v", w.Extend, s.Lock.TTL)
	case w.For >= s.Limit:
		return pathProblem("workload.for", "shorten it, or set a longer limit", "the clients work for %v, but the run ends at %v", w.For, s.Limit)
	}
	return nil
}

func checkExpect(s *Scenario) error {
	for _, property := range slices.Sorted(maps.Keys(s.Expect)) {
		e := s.Expect[property]
		if property == boundedHold && s.Limits == (Limits{}) {
			return pathProblem("expect."+property, "add a section, as in limits: {extensions: 5, hold: 40s}", "bounded-hold can't be checked without limits")
		}
		if e.Node != "" && !s.hasNode(e.Node) {
			return pathProblem("expect."+property+".node", s.nodesHint(), "there is no node %s", e.Node)
		}
	}
	return nil
}

func checkPlan(s *Scenario) error {
	for i := range s.Plan {
		path := fmt.Sprintf("plan.%d", i+1)
		if err := checkTrigger(s, path+".when", s.Plan[i].When); err != nil {
			return err
		}
		if err := checkFault(s, path+".fault", &s.Plan[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkTrigger(s *Scenario, path string, t nemesis.Trigger) error {
	switch {
	case t.At != nil && *t.At >= s.Limit:
		return pathProblem(path+".at", "choose an earlier time, or set a longer limit", "%v is after the end of the run", *t.At)
	case t.Event != nil:
		return checkEvent(s, path, *t.Event)
	case t.Point != nil:
		return checkClient(s, path+".client", t.Point.Client)
	case t.Message != nil:
		return checkMessage(s, path, *t.Message)
	}
	return nil
}

func checkMessage(s *Scenario, path string, m nemesis.OnMessage) error {
	if err := checkLink(s, path+".link", m.Link); err != nil {
		return err
	}
	_, end, _ := nemesis.SplitLink(m.Link)
	isWrite := m.Message == history.OpWrite
	switch {
	case isWrite && end != ResourceName:
		return pathProblem(path+".link", "use a link to the resource, as in c1-"+ResourceName, "no %s is sent on %s", m.Message, m.Link)
	case !isWrite && end == ResourceName:
		return pathProblem(path+".message", "messages on this link: "+history.OpWrite, "no %s is sent on %s", m.Message, m.Link)
	}
	return nil
}

func checkFault(s *Scenario, path string, step *nemesis.Step) error {
	f := &step.Fault
	kind, _ := nemesis.KindOf(f.Kind)
	switch {
	case f.For != nil && f.Until != nil:
		return pathProblem(path+".until", "keep one of them", "a fault has a duration or an end event, not both")
	case f.Mode != "" && len(kind.Modes) == 0:
		return pathProblem(path+".mode", "leave it out", "the fault %s has no modes", f.Kind)
	case f.Mode != "" && !slices.Contains(kind.Modes, f.Mode):
		return pathProblem(path+".mode", suggest(f.Mode, "modes", kind.Modes), "the fault %s has no mode %s", f.Kind, f.Mode)
	case f.Mode == "" && len(kind.Modes) > 0:
		f.Mode = kind.Modes[0]
	}
	if o := kind.Validate(*f, s.faultTopology()); o != nil {
		return objectionError(path, o)
	}
	if kind.ModeActions[f.Mode].Capability == sentinelCapability {
		s.Topology.DownAfter = cmp.Or(s.Topology.DownAfter, defaultDownAfter)
	}
	if f.Until != nil {
		if err := checkEvent(s, path+".until", *f.Until); err != nil {
			return err
		}
	}
	if kind.Hits(nemesis.Message) {
		return checkMessageFault(path, step)
	}
	if len(f.Targets) == 0 {
		return pathProblem(path, "add targets: and a list of "+targetKinds(kind), "the fault %s needs targets", f.Kind)
	}
	for i, target := range f.Targets {
		if err := checkTarget(s, fmt.Sprintf("%s.targets.%d", path, i+1), target, kind, f); err != nil {
			return err
		}
	}
	return nil
}

// checkMessageFault checks that a message fault is triggered by the message that it affects.
func checkMessageFault(path string, step *nemesis.Step) error {
	switch {
	case step.When.Message == nil:
		return pathProblem(path+".kind", "write when: {link: c1-n3, message: set, of: reply}", "the fault %s needs a message as its trigger", step.Fault.Kind)
	case len(step.Fault.Targets) > 0:
		return pathProblem(path+".targets", "leave targets out", "the fault %s only affects the message that triggers it", step.Fault.Kind)
	}
	return nil
}

func checkTarget(s *Scenario, path, target string, kind nemesis.Kind, f *nemesis.Fault) error {
	targetKind := nemesis.Client
	switch {
	case strings.Contains(target, "-"):
		targetKind = nemesis.Link
		if err := checkLink(s, path, target); err != nil {
			return err
		}
	case s.hasNode(target):
		targetKind = nemesis.Node
	case !s.hasClient(target):
		return pathProblem(path, s.clientsHint()+"; "+s.nodesHint(), "unknown target %s", target)
	}
	// For a link fault, a client or node stands for all of its links.
	if !kind.Hits(targetKind) && !kind.Hits(nemesis.Link) {
		return pathProblem(path, "it can affect "+targetKinds(kind), "the fault %s can't affect a %s", kind.Name, targetKind)
	}
	if _, end, _ := nemesis.SplitLink(target); end == nemesis.Replica && !kind.HitsReplication {
		return pathProblem(path, "it can only be cut", "the fault %s can't affect a replication link", kind.Name)
	}
	if kind.CheckTarget != nil {
		if o := kind.CheckTarget(*f, target, targetKind); o != nil {
			return objectionError(path, o)
		}
	}
	return nil
}

// objectionError converts a fault kind's objection to a problem at a path in the file.
func objectionError(path string, o *nemesis.Problem) error {
	if o.Field != "" {
		path += "." + o.Field
	}
	return pathProblem(path, o.Hint, "%s", o.What)
}

func targetKinds(k nemesis.Kind) string {
	var all []string
	for _, t := range k.TargetTypes {
		all = append(all, string(t)+"s")
	}
	return strings.Join(all, " and ")
}

// checkRandom checks that random faults can take effect and leave time for recovery.
func checkRandom(s *Scenario) error {
	r := s.Random
	if r == nil {
		return nil
	}
	const path = "plan.random"
	longRunning, _ := longRunningClients(*s)
	safety := time.Duration(r.Safety * float64(s.Limit))
	switch {
	case r.Lasts.Min > safety/10:
		return pathProblem(path+".lasts", fmt.Sprintf("lower the minimum to %v or less, or set a longer limit", safety/10), "no fault fits into a safety phase of %v", safety)
	case r.Every.Min > safety/2:
		return pathProblem(path+".every", fmt.Sprintf("lower the minimum to %v or less, or set a longer limit", safety/2), "hardly any fault fits into a safety phase of %v", safety)
	case s.Workload.For <= safety:
		return pathProblem("workload", fmt.Sprintf("set workload.for to more than %v, when the safety phase ends", safety), "the clients may finish before the random plan's last faults")
	case len(longRunning) == 0:
		return pathProblem("clients", fmt.Sprintf("let one of them start by %v, and work until workload.for", time.Duration(latestStart*float64(s.Limit))), "the random plan has no client to target")
	}
	for _, c := range r.Choices() {
		if slices.ContainsFunc(r.ModesOf(c.Kind), func(mode string) bool { return c.Kind.ModeActions[mode].Capability == sentinelCapability }) {
			s.Topology.DownAfter = cmp.Or(s.Topology.DownAfter, defaultDownAfter)
		}
		if o := c.Kind.ValidateTopology(s.faultTopology()); o != nil {
			return pathProblem(path+".faults", o.Hint, "%s", o.What)
		}
		switch {
		case c.Kind.AllowedFaults == "" && r.Within != "":
			return pathProblem(path+".within", "remove one of them", "the fault %s violates Redlock's assumptions", c.Kind.Name)
		case c.Fatal() && len(longRunning) <= nemesis.MinSurvivors && slices.Contains(r.Faults, c.Name):
			return pathProblem(path+".faults", "add clients", "%d clients must survive, so none can be killed", nemesis.MinSurvivors)
		case len(c.Kind.Modes) > 0 && len(r.ModesOf(c.Kind)) == 0:
			return pathProblem(path+".modes", suggest("", "modes of "+c.Kind.Name, c.Kind.Modes), "the fault %s has none of these modes", c.Kind.Name)
		}
	}
	return nil
}

// checkWork limits the resources that a run needs, as far as the scenario determines them: the
// number of objects, and the number of repetitions, each of which records at least one event. Runs
// that repeat something without bound, for example because clients neither think nor hold, are
// stopped after history.MaxEvents events.
func checkWork(s *Scenario) error {
	nodes := max(s.Topology.Nodes, len(s.Topology.Addresses))
	if links := nodes * len(s.Clients); links > maxLinks {
		return pathProblem("clients", fmt.Sprintf("use fewer clients or nodes: at most %d links", maxLinks), "%d clients and %d nodes have %d links", len(s.Clients), nodes, links)
	}
	w := s.Workload
	total := 0
	if err := addRepeats(&total, "workload.extend", s.Limit, w.Extend, len(s.Clients)); err != nil {
		return err
	}
	total = 0
	for _, c := range s.Clients {
		path, cycles := "workload.cycles", w.Cycles
		if c.Cycles != nil {
			path, cycles = "clients."+c.Name+".cycles", *c.Cycles
		}
		if total += cycles * w.Writes; total > history.MaxEvents {
			return pathProblem(path, fmt.Sprintf("at most %d writes by all clients together", history.MaxEvents), "the clients' cycles add up to more than %d writes", history.MaxEvents)
		}
	}
	total = 0
	for i, step := range s.Plan {
		f := step.Fault
		length := s.Limit
		if f.For != nil {
			length = min(length, *f.For)
		}
		if err := addRepeats(&total, fmt.Sprintf("plan.%d.fault.every", i+1), length, f.Every.Min, len(f.Targets)); err != nil {
			return err
		}
	}
	return nil
}

// addRepeats adds the number of times that something happens on all targets to total, and limits
// the total. It happens once per interval for the given length of time.
func addRepeats(total *int, path string, length, interval time.Duration, targets int) error {
	if interval <= 0 {
		return nil // happens only once
	}
	// The microseconds in a day times a thousand targets fit in an int.
	if *total += int(length/interval) * targets; *total > history.MaxEvents {
		return pathProblem(path, fmt.Sprintf("at most %d times per run: use a longer interval or a shorter run", history.MaxEvents), "every %v is too often: %d times in this run", interval, *total)
	}
	return nil
}

// Capabilities that a scenario may need in addition to those that its faults need.
const (
	ReplicasCapability        = "replicas"
	PersistenceCapability     = "persistence"
	ExactInstantsCapability   = "exact-instants"
	MonotonicExpiryCapability = "monotonic-expiry" // no version of Redis supports it
	ImageCapability           = "image"            // nodes are containers that run a given image
	KeyLifeCapability         = "life"             // nodes report changes to keys (history.Life); no scenario needs it
	OwnTimeCapability         = "set-own-time"     // can set the clock of a client whose lock calls package time directly
)

// Capabilities lists everything that a backend may support besides harness.RunCapability: features
// of topologies, and each fault on each kind of target.
func Capabilities() []string {
	all := []string{PersistenceCapability, ReplicasCapability, ImageCapability, MonotonicExpiryCapability, OwnTimeCapability, ExactInstantsCapability}
	all = append(all, lock.Servers()...)
	faults, _ := nemesis.Capabilities(nil)
	return append(all, faults...)
}

// RequiredCapabilitiesForLock returns the capabilities required to run the scenario with a lock of
// kind k.
func (s Scenario) RequiredCapabilitiesForLock(k lock.Kind) []string {
	capabilities := s.RequiredCapabilities()
	if k.OwnTime && setsClientClock(s) {
		capabilities = append(capabilities, OwnTimeCapability)
	}
	if k.Server != s.Topology.Server {
		capabilities = append(capabilities, lockCapability(s.Topology.Server))
	}
	slices.Sort(capabilities)
	return capabilities
}

// setsClientClock reports whether the plan may set a client's clock, as opposed to changing its
// rate.
func setsClientClock(s Scenario) bool {
	if s.Random != nil && slices.ContainsFunc(s.Random.Choices(), func(c nemesis.Choice) bool { return c.Kind.SetsClock && c.TargetType == nemesis.Client }) {
		return true
	}
	return slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		return kind.SetsClock && slices.ContainsFunc(st.Fault.Targets, func(t string) bool { return slices.Contains(s.ClientNames(), t) })
	})
}

// RequiredCapabilities returns the capabilities that a cluster must have for the scenario, sorted.
func (s Scenario) RequiredCapabilities() []string {
	var out []string
	add := func(c string) {
		if c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		if st.When.Message != nil {
			add(nemesis.Capability(nemesis.Hold, nemesis.Message)) // the message is held until the fault, whatever its kind, has been injected
		}
		add(kind.ModeActions[st.Fault.Mode].Capability)
		if kind.Hits(nemesis.Message) {
			add(kind.Capability(nemesis.Message))
		}
		for _, t := range st.Fault.Targets {
			switch {
			case kind.Hits(nemesis.Link):
				add(kind.Capability(nemesis.Link))
			case slices.Contains(s.ClientNames(), t):
				add(kind.Capability(nemesis.Client))
			default:
				add(kind.Capability(nemesis.Node))
			}
		}
	}
	if s.Random != nil { // include faults that a seed doesn't draw: a backend runs all seeds or none
		for _, c := range s.Random.Choices() {
			add(c.Kind.Capability(c.TargetType))
			for _, mode := range s.Random.ModesOf(c.Kind) {
				add(c.Kind.ModeActions[mode].Capability)
			}
			for _, capability := range c.Kind.ExtraCapabilities {
				add(capability)
			}
			if c.TargetType == nemesis.Message {
				add(nemesis.Capability(nemesis.Hold, nemesis.Message))
			}
		}
	}
	for capability, isNeeded := range map[string]bool{
		ReplicasCapability: s.Topology.Replicas > 0, PersistenceCapability: s.Topology.Persistence != PersistNone && s.Topology.Server == "", ImageCapability: s.Topology.Image != "",
		MonotonicExpiryCapability: s.Topology.Expiry == ExpiryMonotonic, ExactInstantsCapability: s.Exact,
	} {
		if isNeeded {
			add(capability)
		}
	}
	if store := s.Topology.Server; store != "" {
		out = convertCapabilities(store, out)
		add(store)
	}
	slices.Sort(out)
	return out
}

// faultTopology returns the topology in the form that fault kinds expect.
func (s *Scenario) faultTopology() nemesis.Topology {
	return nemesis.Topology{Replicas: s.Topology.Replicas, HasPersistence: s.Topology.Persistence != PersistNone}
}

// SentinelNodes returns the nodes whose failover the plan leaves to sentinels.
func (s Scenario) SentinelNodes() []string {
	var nodes []string
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		for _, node := range st.Fault.Targets {
			if kind.ModeActions[st.Fault.Mode].Capability == sentinelCapability && !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// sentinelCapability is the capability of clusters that run sentinels.
var sentinelCapability = nemesis.Capability(nemesis.SentinelCapability, nemesis.Node)
