package nemesis

import (
	"fmt"
	"testing"
	"time"

	"lockpick/harness/history"
)

func TestEventMatches(t *testing.T) {
	acquireEvent := history.Event{Process: "c1", Type: history.OK, Op: history.OpAcquire}
	pauseEvent := history.Event{Process: history.Nemesis, Type: history.Begin, Op: "pause", Node: "c1"}
	for _, c := range []struct {
		event Event
		fact  history.Event
		want  bool
	}{
		{Event{Client: "c1", Event: "acquired"}, acquireEvent, true},
		{Event{Client: "c2", Event: "acquired"}, acquireEvent, false},
		{Event{Client: "c1", Event: "acquiring"}, acquireEvent, false},
		{Event{Client: "c1", Event: "released"}, acquireEvent, false},
		{Event{Client: "c1", Event: "paused"}, pauseEvent, true},
		{Event{Client: "c2", Event: "paused"}, pauseEvent, false},
		{Event{Client: "c1", Event: "resumed"}, pauseEvent, false},
		{Event{Client: "nemesis", Event: "paused"}, pauseEvent, false},
		{Event{Client: "c1", Event: "no such event"}, acquireEvent, false},
		// A command on a link is not the client's own operation.
		{Event{Client: "c1", Event: "wrote"}, history.Event{Process: "c1-r1", Type: history.OK, Op: history.OpWrite}, false},
	} {
		if got := c.event.Matches(c.fact); got != c.want {
			t.Errorf("%v matches %s %s %s: %v, want %v", c.event, c.fact.Process, c.fact.Type, c.fact.Op, got, c.want)
		}
	}
}

func TestTriggerString(t *testing.T) {
	at := 3 * time.Second
	for want, trigger := range map[string]Trigger{
		"at 3s":                        {At: &at},
		"c1 acquired":                  {Event: &Event{Client: "c1", Event: "acquired", Nth: 1}},
		"10ms after c1 wrote (time 2)": {Event: &Event{Client: "c1", Event: "wrote", Nth: 2, After: 10 * time.Millisecond}},
		"every time c2 acquired":       {Event: &Event{Client: "c2", Event: "acquired", Every: true}},
		"c1 at point p (time 2)":       {Point: &OnPoint{Client: "c1", Point: "p", Nth: 2}},
		"set reply 1 on c1-n3":         {Message: &OnMessage{Link: "c1-n3", Message: "set", Of: Reply, Nth: 1}},
		"never":                        {},
	} {
		if got := trigger.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Injecting a kind into a cluster without the capability returns an error instead of doing nothing.
func TestKindsAreComplete(t *testing.T) {
	for _, k := range Kinds {
		if k.Doc == "" || k.Wording.Name == "" || len(k.TargetTypes) == 0 || k.Action.inject == nil {
			t.Errorf("%s: %+v", k.Name, k)
		}
		if found, ok := KindOf(k.Name); !ok || found.Name != k.Name {
			t.Errorf("KindOf(%q) did not find it", k.Name)
		}
		if _, err := k.Inject(struct{}{}, Fault{Kind: k.Name}, "c1"); err == nil {
			t.Errorf("%s: no error from a cluster without the capability", k.Name)
		}
	}
	if _, ok := KindOf("earthquake"); ok {
		t.Error("KindOf found an unknown kind")
	}
}

// A killed node is restarted after a delay or by an event. A killed client is never restarted.
func TestKillHeals(t *testing.T) {
	c := &killableCluster{}
	none := time.Duration(0)
	for _, f := range []Fault{{For: &none}, {Until: &Event{}}} {
		e, err := killKind.Inject(c, f, "n1")
		if err != nil || e.Heal == nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if back, err := e.Heal(); back != "n1 is back" || err != nil {
			t.Errorf("%s, %v", back, err)
		}
	}
	if e, err := killKind.Inject(c, Fault{}, "n1"); err != nil || e.Heal != nil {
		t.Errorf("a permanent kill can be healed: %v", err)
	}
}

func TestContainerFaults(t *testing.T) {
	for want, f := range map[string]Fault{
		"reply of x cut, x mended":                  {Kind: "cut", Mode: CutPackets, Way: Reply},
		"x unplugged, x plugged":                    {Kind: "unplug"},
		"x gets 0.02 and 8388608 B, x is unlimited": {Kind: "starve", CPU: 0.02, Memory: 8 << 20},
	} {
		k, _ := KindOf(f.Kind)
		e, err := k.Inject(&containerCluster{}, f, "x")
		if err != nil || e.Heal == nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if back, err := e.Heal(); e.ReadBack+", "+back != want || err != nil {
			t.Errorf("%s, %s, %v, want %s", e.ReadBack, back, err, want)
		}
	}
	if _, err := cutKind.Inject(&containerCluster{}, Fault{Kind: "cut", Mode: CutHold}, "x"); err == nil {
		t.Error("a cluster without capability cut-link cut a link")
	}
}

type containerCluster struct{}

func (*containerCluster) CutPackets(link, way string) (string, error) {
	return way + " of " + link + " cut", nil
}
func (*containerCluster) MendPackets(link string) (string, error) { return link + " mended", nil }
func (*containerCluster) Unplug(node string) (string, error)      { return node + " unplugged", nil }
func (*containerCluster) Plug(node string) (string, error)        { return node + " plugged", nil }
func (*containerCluster) ClearLimits(node string) (string, error) { return node + " is unlimited", nil }
func (*containerCluster) Starve(node string, cpu float64, memory int) (string, error) {
	return fmt.Sprintf("%s gets %g and %d B", node, cpu, memory), nil
}

type killableCluster struct{}

func (*killableCluster) Kill(target string) (string, error)  { return target + " is gone", nil }
func (*killableCluster) Restart(node string) (string, error) { return node + " is back", nil }

func TestDetails(t *testing.T) {
	span := func(d time.Duration) *time.Duration { return &d }
	for want, f := range map[string]Fault{
		"":                                 {Kind: "kill"},
		"by -5s":                           {Kind: "clock-jump", By: -5 * time.Second},
		"mode drop, way reply":             {Kind: "cut", Mode: CutDrop, Way: Reply},
		"mode packets":                     {Kind: "cut", Mode: CutPackets},
		"cpu 0.02, memory 8MB":             {Kind: "starve", CPU: 0.02, Memory: 8 << 20},
		"delay 1ms..2s, share 20 %":        {Kind: "delay", Mode: evenDelay, Delay: Span{time.Millisecond, 2 * time.Second}, Share: 0.2},
		"for 11s, timer at rate 2":         {Kind: "kill", For: span(11 * time.Second), Timer: &Timer{Rate: 2}},
		"for 11s, timer set forward by 8s": {Kind: "kill", For: span(11 * time.Second), Timer: &Timer{Step: 8 * time.Second}},
		"every 1s, lasts 1ms..4s, until c2 wrote": {Kind: "gc", Every: Span{time.Second, time.Second},
			Lasts: Span{time.Millisecond, 4 * time.Second}, Until: &Event{Client: "c2", Event: "wrote"}},
	} {
		if got := f.Details(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Every kind that is a failure by itself has a failure model, because scorecards have a column for
// each model.
func TestModels(t *testing.T) {
	for _, k := range Kinds {
		if (k.Model == "") != (k.Name == "touch") {
			t.Errorf("%s has model %q", k.Name, k.Model)
		}
	}
}
