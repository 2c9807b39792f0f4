//go:build linux

package files

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnerComesBack(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if back, ok := ParseOwner(self.String()); !ok || back != self {
		t.Errorf("%v came back as %v", self, back)
	}
	name, err := Unfinished.Name()
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := Unfinished.owner(name); !ok || o != self {
		t.Errorf("%s is of %v", name, o)
	}
	for _, bad := range []string{"", "a", "a.b.c.d", "a.b.1", "a.b.1.2.3", "a.b.-1.2", "a.b.0.2", "a.b.1.-2"} {
		if o, ok := ParseOwner(bad); ok {
			t.Errorf("%q is %v", bad, o)
		}
	}
}

// Where /proc hides the processes of others, as it does with hidepid, they live even so.
func TestHiddenProcessLives(t *testing.T) {
	if os.Getenv("LOCKPICK_HIDDEN") != "" { // root, in a mount namespace of its own
		for _, err := range []error{unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"), syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)} {
			if err != nil {
				t.Skip(err)
			}
		}
		if _, err := os.Stat("/proc/1/stat"); err == nil {
			t.Skip("nothing is hidden")
		}
		if s, err := StatOf(1); err == nil || !ProcessRuns(1, 0) {
			t.Errorf("process 1 is %+v", s)
		}
		if ProcessRuns(1<<22+1, 0) {
			t.Error("a process lives that there can't be")
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can hide processes")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHiddenProcessLives$", "-test.v")
	cmd.Env = append(os.Environ(), "LOCKPICK_HIDDEN=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
