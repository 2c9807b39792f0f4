package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

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
