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

// checkWhole looks at what no single key can show: whether the parts of a scenario
// fit together. It also fills in the mode of a fault that has a default, and what follows from
// the kind of lock.
func checkWhole(s *Scenario, k Known) error {
	s.Lock = s.Lock.Of(k.Kinds[s.Lock.Kind], s.Topology.Nodes)
	if s.Lock.Kind == brokenLock && s.Lock.Mistake == "" {
		return badAt("lock.kind", suggest("", "add mistake: and one of these", k.Mistakes), "the lock kind broken needs a mistake")
	}
	if err := checkOptions(s, k); err != nil {
		return err
	}
	for _, part := range []func(*Scenario) error{checkLock, checkAddresses, checkClients, checkStarts, checkWorkload, checkPlan, checkRandom, checkExpect, checkWork} {
		if err := part(s); err != nil {
			return err
		}
	}
	return nil
}

func checkOptions(s *Scenario, k Known) error {
	var has []string
	values := map[string][]string{}
	for _, o := range k.Kinds[s.Lock.Kind].Options {
		has = append(has, o.Name)
		values[o.Name] = o.Values
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lock.Options)) {
		switch {
		case len(has) == 0:
			return badAt("lock.options", "leave it out", "the lock kind %s has no options", s.Lock.Kind)
		case !slices.Contains(has, name):
			return badAt("lock.options."+name, suggest(name, "can be set", has), "the lock kind %s has no option %s", s.Lock.Kind, name)
		case !slices.Contains(values[name], s.Lock.Options[name]):
			return badAt("lock.options."+name, "use one of "+strings.Join(values[name], ", "), "the lock kind %s takes no %s=%s", s.Lock.Kind, name, s.Lock.Options[name])
		}
	}
	return nil
}

func checkLock(s *Scenario) error {
	l := s.Lock
	switch {
	case l.Kind != brokenLock && l.Mistake != "":
		return badAt("lock.mistake", "use kind: broken, or leave the mistake out", "the lock kind %s has no mistakes", l.Kind)
	case l.Timeout >= l.TTL/2:
		return badAt("lock.timeout", fmt.Sprintf("make timeout less than half of the TTL, here less than %v", l.TTL/2),
			"a timeout of %v to one node is too long for a TTL of %v", l.Timeout, l.TTL)
	}
	return nil
}

func checkAddresses(s *Scenario) error {
	for i, node := range s.Topology.Addresses {
		if !s.hasNode(node) {
			return badAt(fmt.Sprintf("topology.addresses.%d", i+1), s.nodesHint(), "there is no node %s", node)
		}
	}
	return nil
}

func checkClients(s *Scenario) error {
	for _, c := range s.Clients {
		for i, node := range c.Reach {
			if !s.hasNode(node) {
				return badAt(fmt.Sprintf("clients.%s.reach.%d", c.Name, i+1), s.nodesHint(), "there is no node %s", node)
			}
		}
		if c.Start == nil {
			if c.Delay >= s.Limit {
				return badAt("clients."+c.Name+".start", "start it sooner, or set a longer limit", "%s starts at %v, but the run ends at %v", c.Name, c.Delay, s.Limit)
			}
			continue
		}
		if err := checkEvent(s, fmt.Sprintf("clients.%s.start", c.Name), *c.Start); err != nil {
			return err
		}
	}
	return nil
}

// checkStarts follows who waits for whom: a circle would never begin.
func checkStarts(s *Scenario) error {
	waits := map[string]string{}
	for _, c := range s.Clients {
		if c.Start != nil {
			waits[c.Name] = c.Start.Client
		}
	}
	for _, c := range s.Clients {
		seen := []string{c.Name}
		for next := waits[c.Name]; next != ""; next = waits[next] {
			seen = append(seen, next)
			if next == c.Name {
				return badAt("clients."+c.Name+".start.client", "let one of them start at a time, as in start: 0s",
					"%s waits for itself: %s", c.Name, strings.Join(seen, " waits for "))
			}
			if len(seen) > len(s.Clients) {
				break // a circle further on: the turn of those in it comes
			}
		}
	}
	return nil
}

func checkWorkload(s *Scenario) error {
	switch w := s.Workload; {
	case w.Fence == client.FenceToken && !s.Lock.Fence:
		return badAt("workload.fence", "set lock.fence: true as well; tokens come from the lock only", "the fence needs a lock that hands out tokens")
	case w.Extend >= s.Lock.TTL:
		return badAt("workload.extend", fmt.Sprintf("extend in good time, here well within %v", s.Lock.TTL),
			"the first extension after %v comes too late for a TTL of %v", w.Extend, s.Lock.TTL)
	case w.For >= s.Limit:
		return badAt("workload.for", "shorten it, or set a longer limit", "the clients work for %v, but the run ends at %v", w.For, s.Limit)
	}
	return nil
}

func checkExpect(s *Scenario) error {
	for _, property := range slices.Sorted(maps.Keys(s.Expect)) {
		e := s.Expect[property]
		if property == boundedHold && s.Limits == (Limits{}) {
			return badAt("expect."+property, "add a section, as in limits: {extensions: 5, hold: 40s}", "bounded-hold can't be judged without limits")
		}
		if e.Node != "" && !s.hasNode(e.Node) {
			return badAt("expect."+property+".node", s.nodesHint(), "there is no node %s", e.Node)
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
		return badAt(path+".at", "make it sooner, or set a longer limit", "%v is later than the end of the run", *t.At)
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
	toResource := m.Message == history.OpWrite
	switch {
	case toResource && end != ResourceName:
		return badAt(path+".link", "write to the resource, as in c1-"+ResourceName, "no %s passes on %s", m.Message, m.Link)
	case !toResource && end == ResourceName:
		return badAt(path+".message", "messages there: "+history.OpWrite, "no %s passes on %s", m.Message, m.Link)
	}
	return nil
}

func checkFault(s *Scenario, path string, step *nemesis.Step) error {
	f := &step.Fault
	kind, _ := nemesis.KindOf(f.Kind)
	switch {
	case f.For != nil && f.Until != nil:
		return badAt(path+".until", "keep one of them", "a fault lasts for a time or until an event, not both")
	case f.Mode != "" && len(kind.Modes) == 0:
		return badAt(path+".mode", "leave it out", "the fault %s has no modes", f.Kind)
	case f.Mode != "" && !slices.Contains(kind.Modes, f.Mode):
		return badAt(path+".mode", suggest(f.Mode, "modes", kind.Modes), "the fault %s has no mode %s", f.Kind, f.Mode)
	case f.Mode == "" && len(kind.Modes) > 0:
		f.Mode = kind.Modes[0]
	}
	if o := kind.Wrong(*f, s.ground()); o != nil {
		return objected(path, o)
	}
	if kind.ByMode[f.Mode].Needs == canWatch {
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
		return badAt(path, "add targets: and a list of "+sorts(kind), "the fault %s needs targets", f.Kind)
	}
	for i, target := range f.Targets {
		if err := checkTarget(s, fmt.Sprintf("%s.targets.%d", path, i+1), target, kind, f); err != nil {
			return err
		}
	}
	return nil
}

// checkMessageFault: what hits a message hits the one that set it off.
func checkMessageFault(path string, step *nemesis.Step) error {
	switch {
	case step.When.Message == nil:
		return badAt(path+".kind", "write when: {link: c1-n3, message: set, of: reply}", "the fault %s needs a message that sets it off", step.Fault.Kind)
	case len(step.Fault.Targets) > 0:
		return badAt(path+".targets", "leave targets out", "the fault %s hits the message that sets it off, nothing else", step.Fault.Kind)
	}
	return nil
}

func checkTarget(s *Scenario, path, target string, kind nemesis.Kind, f *nemesis.Fault) error {
	on := nemesis.Client
	switch {
	case strings.Contains(target, "-"):
		on = nemesis.Link
		if err := checkLink(s, path, target); err != nil {
			return err
		}
	case s.hasNode(target):
		on = nemesis.Node
	case !s.hasClient(target):
		return badAt(path, s.clientsHint()+"; "+s.nodesHint(), "there is no target %s", target)
	}
	// A client or a node as target of a fault of links means all its links.
	if !kind.Hits(on) && !kind.Hits(nemesis.Link) {
		return badAt(path, "it hits "+sorts(kind), "the fault %s can't hit a %s", kind.Name, on)
	}
	if _, end, _ := nemesis.SplitLink(target); end == nemesis.Replica && !kind.Replicates {
		return badAt(path, "it can only be cut", "the fault %s can't hit a replication link", kind.Name)
	}
	if kind.Hit != nil {
		if o := kind.Hit(*f, target, on); o != nil {
			return objected(path, o)
		}
	}
	return nil
}

// objected is a kind's objection as a problem of the file.
func objected(path string, o *nemesis.Objection) error {
	if o.Field != "" {
		path += "." + o.Field
	}
	return badAt(path, o.Hint, "%s", o.What)
}

func sorts(k nemesis.Kind) string {
	var all []string
	for _, t := range k.On {
		all = append(all, string(t)+"s")
	}
	return strings.Join(all, " and ")
}

// checkRandom: what is drawn must be able to take effect, and leave time to recover from.
func checkRandom(s *Scenario) error {
	r := s.Random
	if r == nil {
		return nil
	}
	const path = "plan.random"
	steady, _ := steady(*s)
	over := time.Duration(r.Safety * float64(s.Limit))
	switch {
	case r.Lasts.Min > over/10:
		return badAt(path+".lasts", fmt.Sprintf("make the shortest %v at most, or set a longer limit", over/10), "no fault fits into a safety phase of %v", over)
	case r.Every.Min > over/2:
		return badAt(path+".every", fmt.Sprintf("make the shortest %v at most, or set a longer limit", over/2), "next to no fault comes in a safety phase of %v", over)
	case s.Workload.For <= over:
		return badAt("workload", fmt.Sprintf("set workload.for to more than %v, the safety phase's end", over), "the clients may be done before the faults of a random plan are")
	case len(steady) == 0:
		return badAt("clients", fmt.Sprintf("let one of them start by %v, and work until workload.for", time.Duration(latestStart*float64(s.Limit))), "a random plan has no client to hit")
	}
	for _, c := range r.Choices() {
		if slices.ContainsFunc(r.ModesOf(c.Kind), func(mode string) bool { return c.Kind.ByMode[mode].Needs == canWatch }) {
			s.Topology.DownAfter = cmp.Or(s.Topology.DownAfter, defaultDownAfter)
		}
		if o := c.Kind.Objects(s.ground()); o != nil {
			return badAt(path+".faults", o.Hint, "%s", o.What)
		}
		switch {
		case c.Kind.Within == "" && r.Within != "":
			return badAt(path+".within", "leave out one of them", "a %s is beyond what Redlock assumes", c.Kind.Name)
		case c.Fatal() && len(steady) <= nemesis.Survivors && slices.Contains(r.Faults, c.Word):
			return badAt(path+".faults", "add clients", "%d clients survive, so there is none to kill", nemesis.Survivors)
		case len(c.Kind.Modes) > 0 && len(r.ModesOf(c.Kind)) == 0:
			return badAt(path+".modes", suggest("", "modes of "+c.Kind.Name, c.Kind.Modes), "no mode is left for the fault %s", c.Kind.Name)
		}
	}
	return nil
}

// checkWork bounds what a run takes of the machine, as far as the scenario tells: how
// many things there are, and how often something is done again, which is an event at
// least each time. A run that repeats itself otherwise, as clients do that neither
// think nor hold, is stopped when it has recorded history.MaxEvents.
func checkWork(s *Scenario) error {
	nodes := max(s.Topology.Nodes, len(s.Topology.Addresses))
	if links := nodes * len(s.Clients); links > maxLinks {
		return badAt("clients", fmt.Sprintf("fewer clients or nodes: at most %d links", maxLinks), "%d clients and %d nodes have %d links", len(s.Clients), nodes, links)
	}
	w := s.Workload
	total := 0
	if err := repeats(&total, "workload.extend", s.Limit, w.Extend, len(s.Clients)); err != nil {
		return err
	}
	total = 0
	for _, c := range s.Clients {
		path, cycles := "workload.cycles", w.Cycles
		if c.Cycles != nil {
			path, cycles = "clients."+c.Name+".cycles", *c.Cycles
		}
		if total += cycles * w.Writes; total > history.MaxEvents {
			return badAt(path, fmt.Sprintf("at most %d writes of all clients", history.MaxEvents), "the clients' cycles come to more than %d writes", history.MaxEvents)
		}
	}
	total = 0
	for i, step := range s.Plan {
		f := step.Fault
		lasts := s.Limit
		if f.For != nil {
			lasts = min(lasts, *f.For)
		}
		if err := repeats(&total, fmt.Sprintf("plan.%d.fault.every", i+1), lasts, f.Every.Min, len(f.Targets)); err != nil {
			return err
		}
	}
	return nil
}

// repeats adds how often something comes that comes every so often, to so many, and
// bounds the sum.
func repeats(total *int, path string, lasts, every time.Duration, to int) error {
	if every <= 0 {
		return nil // it doesn't
	}
	// A day has fewer microseconds than an int has room for, also of a thousand targets.
	if *total += int(lasts/every) * to; *total > history.MaxEvents {
		return badAt(path, fmt.Sprintf("at most %d times in one run: make it longer, or the run shorter", history.MaxEvents), "every %v is too often: %d times in this run", every, *total)
	}
	return nil
}

// Capabilities that a scenario needs besides those of its plan.
const (
	CanReplicate       = "replicas"
	CanPersist         = "persistence"
	CanBeExact         = "exact-instants"
	CanExpireMonotonic = "monotonic-expiry" // no Redis does
	CanImage           = "image"            // nodes that run a named image, and so are containers
	CanTellLife        = "life"             // nodes tell of each key's life, which no scenario needs: see history.Life
	CanSetOwnTime      = "set-own-time"     // the clock of a client whose lock reads package time itself
)

// Capabilities lists all that a backend may have, besides CanRun: those of
// topologies, and of each fault on each sort of target.
func Capabilities() []string {
	all := []string{CanPersist, CanReplicate, CanImage, CanExpireMonotonic, CanSetOwnTime, CanBeExact}
	all = append(all, lock.Servers()...)
	faults, _ := nemesis.Capabilities(nil)
	return append(all, faults...)
}

// NeedsOf is Needs for a lock of that kind.
func (s Scenario) NeedsOf(k lock.Kind) []string {
	needs := s.Needs()
	if k.OwnTime && setsClient(s) {
		needs = append(needs, CanSetOwnTime)
	}
	if k.Server != s.Topology.Server {
		needs = append(needs, lockOn(s.Topology.Server))
	}
	slices.Sort(needs)
	return needs
}

// setsClient says whether the plan may set a client's clock, rather than let it run
// fast or slow.
func setsClient(s Scenario) bool {
	if s.Random != nil && slices.ContainsFunc(s.Random.Choices(), func(c nemesis.Choice) bool { return c.Kind.Sets && c.On == nemesis.Client }) {
		return true
	}
	return slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		return kind.Sets && slices.ContainsFunc(st.Fault.Targets, func(t string) bool { return slices.Contains(s.ClientNames(), t) })
	})
}

// Needs lists the capabilities that a cluster must have for the scenario's
// plan, sorted.
func (s Scenario) Needs() []string {
	var out []string
	add := func(c string) {
		if c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		if st.When.Message != nil {
			add(nemesis.Capability(nemesis.Hold, nemesis.Message)) // whatever the fault, the message waits for it
		}
		add(kind.ByMode[st.Fault.Mode].Needs)
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
	if s.Random != nil { // whatever a seed leaves out: the same seeds must run everywhere
		for _, c := range s.Random.Choices() {
			add(c.Kind.Capability(c.On))
			for _, mode := range s.Random.ModesOf(c.Kind) {
				add(c.Kind.ByMode[mode].Needs)
			}
			for _, besides := range c.Kind.Besides {
				add(besides)
			}
			if c.On == nemesis.Message {
				add(nemesis.Capability(nemesis.Hold, nemesis.Message))
			}
		}
	}
	for need, is := range map[string]bool{
		CanReplicate: s.Topology.Replicas > 0, CanPersist: s.Topology.Persistence != PersistNone && s.Topology.Server == "", CanImage: s.Topology.Image != "",
		CanExpireMonotonic: s.Topology.Expiry == ExpiryMonotonic, CanBeExact: s.Exact,
	} {
		if is {
			add(need)
		}
	}
	if store := s.Topology.Server; store != "" {
		out = needsOn(store, out)
		add(store)
	}
	slices.Sort(out)
	return out
}

// ground is the topology as kinds of fault see it.
func (s *Scenario) ground() nemesis.Topology {
	return nemesis.Topology{Replicas: s.Topology.Replicas, Persists: s.Topology.Persistence != PersistNone}
}

// BySentinel lists the nodes that the plan leaves to sentinels to fail over.
func (s Scenario) BySentinel() []string {
	var nodes []string
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		for _, node := range st.Fault.Targets {
			if kind.ByMode[st.Fault.Mode].Needs == canWatch && !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// canWatch is the capability of clusters that have sentinels.
var canWatch = nemesis.Capability(nemesis.PowerSentinel, nemesis.Node)
