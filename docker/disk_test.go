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

// A power loss drops a node's unsynced data, and the node restarts with the rest. Writes to a full disk
// fail. The container needs no capability for this.
func TestPowerLossAndDisks(t *testing.T) {
	t.Parallel() // mostly waits
	if disks := testBackend().findCapabilities(t.Context()).disks; !disks.Available {
		t.Skipf("%s: %s", disks.Reason, disks.Remedy)
	}
	for mode, want := range map[string]string{"always": " (keys: 1)", "no": " (keys: 0)"} {
		s := twoNodes
		s.Topology.Persistence = mode
		hour := time.Hour
		s.Plan = nemesis.Plan{{Fault: nemesis.Fault{Kind: "power-loss", Targets: []string{"n1"}, For: &hour}}}
		run(t, s, func(b testRun) {
			if b.Disk("n1") == nil || b.Disk("n2") != nil {
				t.Fatal("n1 has no faulty disk, or n2 has one")
			}
			b.onNode("n1", "SET", "k", "v")
			lost := b.do("power loss", func() (string, error) { return b.LosePower("n1", false) })
			if strings.Contains(lost, "all was synced") != (mode == "always") {
				t.Errorf("persistence %s: power loss returned %q", mode, lost)
			}
			if back := b.do("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(back, want) {
				t.Errorf("persistence %s: restart returned %q, want %q", mode, back, want)
			}
			if back := b.do("touch", func() (string, error) { return b.Touch("n1") }); strings.Contains(back, "not synced") != (mode == "no") {
				t.Errorf("persistence %s: touch returned %q", mode, back)
			}
			if _, err := b.FillDisk("n2"); err == nil {
				t.Error("no error when filling the disk of a node without a faulty disk")
			}
			b.do("fill", func() (string, error) { return b.FillDisk("n1") })
			b.nodeByName("n1").Command(t.Context(), "n1", []string{"SET", "k2", strings.Repeat("v", 5000)})
			if back, err := b.FreeDisk("n1"); mode == "always" && (err != nil || !strings.HasPrefix(back, "it met ")) {
				t.Errorf("FreeDisk returned %q, %v", back, err)
			}
		})
	}
	self, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), self.String()) {
		t.Errorf("disks are still mounted: %v\n%s", err, mounts)
	}
}
