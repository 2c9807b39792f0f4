//go:build linux

package docker

import (
	"os"
	"strings"
	"testing"
	"time"

	"lockpick/internal/files"
	"lockpick/nemesis"
)

// A power loss takes what a node had not synced, and it is back with what it had; a
// disk that stalls or is full is met. It needs no capability in the container.
func TestPowerLossAndDisks(t *testing.T) {
	t.Parallel() // it mostly waits
	if disks := testBackend().can(t.Context()).disks; !disks.Available {
		t.Skipf("%s: %s", disks.Reason, disks.Remedy)
	}
	for mode, want := range map[string]string{"always": " (keys: 1)", "no": " (keys: 0)"} {
		s := twoNodes
		s.Topology.Persistence = mode
		hour := time.Hour
		s.Plan = nemesis.Plan{{Fault: nemesis.Fault{Kind: "power-loss", Targets: []string{"n1"}, For: &hour}}}
		run(t, s, func(b bench) {
			if b.Of("n1") == nil || b.Of("n2") != nil {
				t.Fatal("the plan hits the disk of n1 alone")
			}
			b.onNode("n1", "SET", "k", "v")
			lost := b.do("power loss", func() (string, error) { return b.LosePower("n1", false) })
			if strings.Contains(lost, "all was synced") != (mode == "always") {
				t.Errorf("persistence %s: it says %q", mode, lost)
			}
			if back := b.do("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(back, want) {
				t.Errorf("persistence %s: restart says %q, want %q", mode, back, want)
			}
			if back := b.do("touch", func() (string, error) { return b.Touch("n1") }); strings.Contains(back, "not synced") != (mode == "no") {
				t.Errorf("persistence %s: touch says %q", mode, back)
			}
			if _, err := b.FillDisk("n2"); err == nil {
				t.Error("a disk could be filled that is none")
			}
			b.do("fill", func() (string, error) { return b.FillDisk("n1") })
			b.at("n1").Command(t.Context(), "n1", []string{"SET", "k2", strings.Repeat("v", 5000)})
			if back, err := b.FreeDisk("n1"); mode == "always" && (err != nil || !strings.HasPrefix(back, "it met ")) {
				t.Errorf("free says %q, %v", back, err)
			}
		})
	}
	self, err := files.Self()
	if err != nil {
		t.Fatal(err)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), self.String()) {
		t.Errorf("still mounted: %v\n%s", err, mounts)
	}
}
