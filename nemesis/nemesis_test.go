package nemesis

import (
	"fmt"
	"testing"
	"time"

	"lockpick/harness/history"
)

func TestEventMatches(t *testing.T) {
	acquired := history.Event{Process: "c1", Type: history.OK, Op: history.OpAcquire}
	paused := history.Event{Process: history.Nemesis, Type: history.Begin, Op: "pause", Node: "c1"}
	for _, c := range []struct {
		event Event
		fact  history.Event
		want  bool
	}{
		{Event{Client: "c1", Event: "acquired"}, acquired, true},
		{Event{Client: "c2", Event: "acquired"}, acquired, false},
		{Event{Client: "c1", Event: "acquiring"}, acquired, false},
		{Event{Client: "c1", Event: "released"}, acquired, false},
		{Event{Client: "c1", Event: "paused"}, paused, true},
		{Event{Client: "c2", Event: "paused"}, paused, false},
		{Event{Client: "c1", Event: "resumed"}, paused, false},
		{Event{Client: "nemesis", Event: "paused"}, paused, false},
		{Event{Client: "c1", Event: "no such event"}, acquired, false},
		// A link's command is not the client's own operation.
		{Event{Client: "c1", Event: "wrote"}, history.Event{Process: "c1-r1", Type: history.OK, Op: history.OpWrite}, false},
	} {
		if got := c.event.Matches(c.fact); got != c.want {
			t.Errorf("%v matches %s %s %s: %v, want %v", c.event, c.fact.Process, c.fact.Type, c.fact.Op, got, c.want)
		}
	}
}

func TestTriggerInWords(t *testing.T) {
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

// Every fault says what it is and hits, and a cluster without its power is
// told so rather than left unharmed.
func TestKinds(t *testing.T) {
	for _, k := range Kinds {
		if k.Doc == "" || k.Told.Name == "" || len(k.On) == 0 || k.Act.inject == nil {
			t.Errorf("%s: %+v", k.Name, k)
		}
		if found, ok := KindOf(k.Name); !ok || found.Name != k.Name {
			t.Errorf("%s is not found by its name", k.Name)
		}
		if _, err := k.Inject(struct{}{}, Fault{Kind: k.Name}, "c1"); err == nil {
			t.Errorf("%s: a cluster that can't do it did it", k.Name)
		}
	}
	if _, ok := KindOf("earthquake"); ok {
		t.Error("there is no earthquake")
	}
}

// A node is started again after a while, or by an event; a client never.
func TestKillHeals(t *testing.T) {
	c := &hospital{}
	none := time.Duration(0)
	for _, f := range []Fault{{For: &none}, {Until: &Event{}}} {
		e, err := kill.Inject(c, f, "n1")
		if err != nil || e.Heal == nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if back, err := e.Heal(); back != "n1 is back" || err != nil {
			t.Errorf("%s, %v", back, err)
		}
	}
	if e, err := kill.Inject(c, Fault{}, "n1"); err != nil || e.Heal != nil {
		t.Errorf("what is killed for good is healed: %v", err)
	}
}

// What only containers can have is done by the power that stands for it, and undone by it.
func TestContainersFaults(t *testing.T) {
	for want, f := range map[string]Fault{
		"reply of x cut, x mended":            {Kind: "cut", Mode: CutPackets, Way: Reply},
		"x unplugged, x plugged":              {Kind: "unplug"},
		"x gets 0.02 and 8388608 B, x is fed": {Kind: "starve", CPU: 0.02, Memory: 8 << 20},
	} {
		k, _ := KindOf(f.Kind)
		e, err := k.Inject(&container{}, f, "x")
		if err != nil || e.Heal == nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if back, err := e.Heal(); e.ReadBack+", "+back != want || err != nil {
			t.Errorf("%s, %s, %v, want %s", e.ReadBack, back, err, want)
		}
	}
	if _, err := cut.Inject(&container{}, Fault{Kind: "cut", Mode: CutHold}, "x"); err == nil {
		t.Error("who can lose packets can't cut in other modes")
	}
}

type container struct{}

func (*container) CutPackets(link, way string) (string, error) {
	return way + " of " + link + " cut", nil
}
func (*container) MendPackets(link string) (string, error) { return link + " mended", nil }
func (*container) Unplug(node string) (string, error)      { return node + " unplugged", nil }
func (*container) Plug(node string) (string, error)        { return node + " plugged", nil }
func (*container) Feed(node string) (string, error)        { return node + " is fed", nil }
func (*container) Starve(node string, cpu float64, memory int) (string, error) {
	return fmt.Sprintf("%s gets %g and %d B", node, cpu, memory), nil
}

type hospital struct{}

func (*hospital) Kill(target string) (string, error)  { return target + " is gone", nil }
func (*hospital) Restart(node string) (string, error) { return node + " is back", nil }

func TestDetails(t *testing.T) {
	span := func(d time.Duration) *time.Duration { return &d }
	for want, f := range map[string]Fault{
		"":                                 {Kind: "kill"},
		"by -5s":                           {Kind: "clock-jump", By: -5 * time.Second},
		"mode drop, way reply":             {Kind: "cut", Mode: CutDrop, Way: Reply},
		"mode packets":                     {Kind: "cut", Mode: CutPackets},
		"cpu 0.02, memory 8MB":             {Kind: "starve", CPU: 0.02, Memory: 8 << 20},
		"delay 1ms..2s, share 20 %":        {Kind: "delay", Mode: delayEven, Delay: Span{time.Millisecond, 2 * time.Second}, Share: 0.2},
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

// What is a failure by itself says of which sort, so that a scorecard has a column for it.
func TestModels(t *testing.T) {
	for _, k := range Kinds {
		if (k.Model == "") != (k.Name == "touch") {
			t.Errorf("%s is of model %q", k.Name, k.Model)
		}
	}
}
