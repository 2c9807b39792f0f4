package scenario

import (
	"slices"
	"testing"

	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// Setting the clock of a client whose lock calls package time requires a capability that changing
// its rate does not.
func TestSettingSystemClockRequiresCapability(t *testing.T) {
	own := lock.Kind{OwnTime: true}
	for _, tt := range []struct {
		fault, target string
		kind          lock.Kind
		want          bool
	}{
		{"clock-jump", "c1", own, true},
		{"clock-strobe", "c1", own, true},
		{"clock-rate", "c1", own, false},
		{"clock-slew", "c1", own, false},
		{"clock-jump", "n1", own, false},
		{"clock-jump", "c1", lock.Kind{}, false},
	} {
		s := Scenario{Topology: Topology{Nodes: 1, Persistence: PersistNone}, Clients: []Client{{Name: "c1"}},
			Plan: nemesis.Plan{{Fault: nemesis.Fault{Kind: tt.fault, Targets: []string{tt.target}}}}}
		if got := slices.Contains(s.RequiredCapabilitiesForLock(tt.kind), OwnTimeCapability); got != tt.want {
			t.Errorf("%s on %s: %v, want %v", tt.fault, tt.target, got, tt.want)
		}
	}
	s := Scenario{Random: &nemesis.Random{Faults: []string{"clock-jump"}}}
	if !slices.Contains(s.RequiredCapabilitiesForLock(own), OwnTimeCapability) {
		t.Error("a random plan that may set a client's clock doesn't require the capability")
	}
}

func TestImageRequiresContainers(t *testing.T) {
	for image, want := range map[string]bool{"": false, "redis:7": true} {
		s := Scenario{Topology: Topology{Nodes: 1, Persistence: PersistNone, Image: image}}
		if got := slices.Contains(s.RequiredCapabilities(), ImageCapability); got != want {
			t.Errorf("image %q: %v, want %v", image, got, want)
		}
	}
}
