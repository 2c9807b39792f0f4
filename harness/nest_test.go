package harness

import (
	"testing"

	"lockpick/nemesis"
)

// pauseCounter counts pauses and resumptions.
type pauseCounter struct{ pauses, resumptions int }

func (s *pauseCounter) Pause(string) (string, error)  { s.pauses++; return "stopped", nil }
func (s *pauseCounter) Resume(string) (string, error) { s.resumptions++; return "runs", nil }

func (s *pauseCounter) Cut(link, mode, way string) (string, error) {
	return link + " " + mode + " " + way, nil
}
func (s *pauseCounter) Mend(link string) (string, error) { return link, nil }

// A fault shared by two steps ends with the later one, and a different fault of the same kind can't
// begin while it is active.
func TestSharedFault(t *testing.T) {
	s := &pauseCounter{}
	all := &sharedFaults{byTarget: map[string]*sharedFault{}, cluster: struct {
		Cluster
		*pauseCounter
	}{pauseCounter: s}}
	inject := func(f nemesis.Fault, target string) (nemesis.Effect, error) {
		kind, _ := nemesis.KindOf(f.Kind)
		return all.inject(kind, f, target)
	}
	first, err1 := inject(nemesis.Fault{Kind: "pause"}, "c1")
	second, err2 := inject(nemesis.Fault{Kind: "gc"}, "c1") // also a pause
	other, err3 := inject(nemesis.Fault{Kind: "pause"}, "c2")
	if err1 != nil || err2 != nil || err3 != nil || s.pauses != 2 {
		t.Fatalf("paused %d times, errors %v %v %v", s.pauses, err1, err2, err3)
	}
	for i, heal := range []func() (string, error){first.Heal, other.Heal, second.Heal} {
		if _, err := heal(); err != nil || s.resumptions != []int{0, 1, 2}[i] {
			t.Errorf("after ending %d faults: resumed %d times, error %v", i+1, s.resumptions, err)
		}
	}
	if _, err := inject(nemesis.Fault{Kind: "pause"}, "c1"); err != nil || s.pauses != 3 {
		t.Errorf("after another pause: paused %d times, error %v", s.pauses, err)
	}

	if _, err := inject(nemesis.Fault{Kind: "cut", Mode: nemesis.CutHold}, "c1-n1"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []nemesis.Fault{{Kind: "cut", Mode: nemesis.CutDrop}, {Kind: "cut", Mode: nemesis.CutHold, Way: nemesis.Reply}} {
		if _, err := inject(f, "c1-n1"); err == nil {
			t.Errorf("%+v was injected into a link that was already cut", f)
		}
	}
}

// blockedMendCluster can't mend a link until the paused node resumes.
type blockedMendCluster struct {
	Cluster
	pauseCounter
	resumed, mending chan struct{}
}

func (w *blockedMendCluster) Resume(string) (string, error) { close(w.resumed); return "runs", nil }
func (w *blockedMendCluster) Mend(string) (string, error) {
	close(w.mending)
	<-w.resumed
	return "mended", nil
}

// Ending a pause must not wait for a cut to end that itself waits for the paused node.
func TestSharedFaultsEndIndependently(t *testing.T) {
	w := &blockedMendCluster{resumed: make(chan struct{}), mending: make(chan struct{})}
	all := &sharedFaults{cluster: w, byTarget: map[string]*sharedFault{}}
	inject := func(kind, target string) nemesis.Effect {
		k, _ := nemesis.KindOf(kind)
		x, err := all.inject(k, nemesis.Fault{Kind: kind}, target)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	cut, pause := inject("cut", "c1-n1"), inject("pause", "n1")
	mended := make(chan struct{})
	go func() { cut.Heal(); close(mended) }()
	<-w.mending
	pause.Heal()
	<-mended
}
