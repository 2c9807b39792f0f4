//go:build linux

package fuse

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// unprivilegedUID is the ID of an ordinary user.
const unprivilegedUID = 65534

// Ordinary users mount the disk with fusermount3, so tests that run as root don't prove that it
// works for them. This test runs the other tests as an ordinary user.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("already running as an ordinary user")
	}
	if _, err := exec.LookPath(fusermount); err != nil {
		t.Skip("fusermount3 is not on PATH: apt-get install fuse3")
	}
	if reason, remedy := Missing(); reason != "" {
		t.Skipf("%s: %s", reason, remedy)
	}
	if info, err := os.Stat(device); err != nil || info.Mode().Perm()&0o006 != 0o006 {
		t.Skipf("%s is not accessible to ordinary users (%v): chmod 666 %s", device, err, device)
	}
	dir, err := os.MkdirTemp("", "lockpick-user-") // the user can't access t.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, unprivilegedUID, unprivilegedUID); err != nil {
		t.Fatal(err)
	}
	// Other users may not have access to the path of the test program.
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.timeout=60s", "-test.skip=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedUID, Gid: unprivilegedUID}}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil && strings.Contains(text, fusermount+": exit status") && strings.Contains(text, "not permitted") {
		t.Skipf("ordinary users can't mount on this machine: %s", text)
	}
	if err != nil || strings.Contains(text, "--- SKIP") || !strings.Contains(text, "--- PASS: TestFullAndStalledDisk") {
		t.Errorf("as user %d: %v\n%s", unprivilegedUID, err, text)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("still mounted: %v\n%s", err, mounts)
	}
	if remaining, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(remaining) > 0 {
		t.Errorf("remaining files: %v, %v", remaining, err)
	}
}
