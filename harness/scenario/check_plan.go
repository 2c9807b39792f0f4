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
		if err := s.checkTrigger(path+".when", s.Plan[i].When); err != nil {
			return err
		}
		if err := s.checkFault(path+".fault", &s.Plan[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scenario) checkTrigger(path string, t nemesis.Trigger) error {
	switch {
	case t.At != nil && *t.At >= s.Limit:
		return badAt(path+".at", "make it sooner, or set a longer limit", "%v is later than the end of the run", *t.At)
	case t.Event != nil:
		return s.checkEvent(path, *t.Event)
	case t.Point != nil:
		return s.checkClient(path+".client", t.Point.Client)
	case t.Message != nil:
		return s.checkMessage(path, *t.Message)
	}
	return nil
}

func (s *Scenario) checkMessage(path string, m nemesis.OnMessage) error {
	if err := s.checkLink(path+".link", m.Link); err != nil {
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

func (s *Scenario) checkFault(path string, step *nemesis.Step) error {
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
	switch extra, wanting := kind.Unfit(*f); {
	case extra != "":
		return badAt(path+"."+extra, "leave it out", "the fault %s has no %s", f.Kind, extra)
	case wanting != "":
		return badAt(path, "add "+wanting+":", "the fault %s needs %s", f.Kind, wanting)
	}
	switch {
	case f.Timer != nil && f.For == nil:
		return badAt(path+".timer", "add for:, which it counts", "a timer needs something to count")
	case f.Kind == "cut" && f.Way != "" && !nemesis.CutsOneWay(f.Mode):
		return badAt(path+".way", "leave it out, or use mode hold, drop or packets", "a cut of mode %s has no one way", f.Mode)
	case f.Kind == "starve" && f.CPU == 0 && f.Memory == 0:
		return badAt(path, "add cpu: 0.02, memory: 8MB, or both", "the fault starve needs cpu or memory")
	case f.Kind == "failover" && s.Topology.Replicas == 0:
		return badAt(path+".kind", "set topology.replicas: 1", "a failover needs replicas")
	case f.Mode == nemesis.FailOverByHand && (f.For != nil || f.Until != nil):
		return badAt(path+".kind", "leave for and until out, or use mode sentinel-kill or sentinel-pause", "a master that is replaced by hand does not come back")
	case kind.ModeNeeds[f.Mode] == canWatch:
		s.Topology.DownAfter = cmp.Or(s.Topology.DownAfter, DefaultDownAfter)
	case kind.Power == nemesis.PowerDisk && s.Topology.Persistence == PersistNone:
		return badAt(path+".kind", "set topology.persistence: everysec, always or no", "a %s needs nodes that persist", f.Kind)
	}
	if f.Until != nil {
		if err := s.checkEvent(path+".until", *f.Until); err != nil {
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
		if err := s.checkTarget(fmt.Sprintf("%s.targets.%d", path, i+1), target, kind, f); err != nil {
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

func (s *Scenario) checkTarget(path, target string, kind nemesis.Kind, f *nemesis.Fault) error {
	on := nemesis.Client
	switch {
	case strings.Contains(target, "-"):
		on = nemesis.Link
		if err := s.checkLink(path, target); err != nil {
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
	if _, end, _ := nemesis.SplitLink(target); end == nemesis.Replica {
		switch {
		case kind.Name != "cut":
			return badAt(path, "it can only be cut", "the fault %s can't hit a replication link", kind.Name)
		case f.Mode == nemesis.CutPackets:
			return badAt(path, "use another mode", "a cut of mode %s can't hit a replication link", f.Mode)
		}
	}
	if kind.Name == "kill" && on == nemesis.Client && (f.For != nil || f.Until != nil) {
		return badAt(path, "leave for and until out; to stop it for a time use pause", "a killed client does not come back")
	}
	return nil
}

func sorts(k nemesis.Kind) string {
	var all []string
	for _, t := range k.On {
		all = append(all, string(t)+"s")
	}
	return strings.Join(all, " and ")
}
