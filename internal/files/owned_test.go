//go:build linux

package files

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnerRoundTrip(t *testing.T) {
	self, err := CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	if parsed, ok := ParseOwner(self.String()); !ok || parsed != self {
		t.Errorf("%v was parsed as %v", self, parsed)
	}
	name, err := Unfinished.Name()
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := Unfinished.owner(name); !ok || o != self {
		t.Errorf("the owner of %s is %v", name, o)
	}
	for _, bad := range []string{"", "a", "a.b.c.d", "a.b.1", "a.b.1.2.3", "a.b.-1.2", "a.b.0.2", "a.b.1.-2"} {
		if o, ok := ParseOwner(bad); ok {
			t.Errorf("%q was parsed as %v", bad, o)
		}
	}
}

// If /proc hides other users' processes, as with hidepid, they are still considered running.
func TestHiddenProcessCountsAsRunning(t *testing.T) {
	if os.Getenv("LOCKPICK_HIDDEN") != "" { // root, in its own mount namespace
		for _, err := range []error{unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"), syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)} {
			if err != nil {
				t.Skip(err)
			}
		}
		if _, err := os.Stat("/proc/1/stat"); err == nil {
			t.Skip("skipped: no process is hidden")
		}
		if s, err := StatOf(1); err == nil || !ProcessRuns(1, 0) {
			t.Errorf("hidden process 1: %+v, want an error", s)
		}
		if ProcessRuns(1<<22+1, 0) {
			t.Error("an impossible PID is considered running")
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can hide processes")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "LOCKPICK_HIDDEN=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
