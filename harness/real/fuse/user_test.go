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

// anybody is a user without rights.
const anybody = 65534

// What root may do says nothing of an ordinary user, for whom fusermount3 mounts:
// these tests run as one.
func TestAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	if _, err := exec.LookPath(fusermount); err != nil {
		t.Skip("fusermount3 is not on PATH: apt-get install fuse3")
	}
	if reason, remedy := Missing(); reason != "" {
		t.Skipf("%s: %s", reason, remedy)
	}
	if is, err := os.Stat(device); err != nil || is.Mode().Perm()&0o006 != 0o006 {
		t.Skipf("%s is not for ordinary users here (%v): chmod 666 %s", device, err, device)
	}
	dir, err := os.MkdirTemp("", "lockpick-user-") // below t.TempDir() it may not go
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, anybody, anybody); err != nil {
		t.Fatal(err)
	}
	// By its path this program may be out of reach for others.
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.timeout=60s", "-test.skip=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: anybody, Gid: anybody}}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil && strings.Contains(text, fusermount+": exit status") && strings.Contains(text, "not permitted") {
		t.Skipf("this machine lets no ordinary user mount: %s", text)
	}
	if err != nil || strings.Contains(text, "--- SKIP") || !strings.Contains(text, "--- PASS: TestFullAndStalledDisk") {
		t.Errorf("as user %d: %v\n%s", anybody, err, text)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("still mounted: %v\n%s", err, mounts)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
