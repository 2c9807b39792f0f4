//go:build linux

package fuse

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func newDisk(t *testing.T) *Disk {
	t.Helper()
	if reason, remedy := Missing(); reason != "" {
		t.Skipf("%s: %s", reason, remedy)
	}
	d, err := Mount(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// sh runs a script in the disk's directory. The shell changes to that directory, because the test
// process must not use the disk itself.
func (d *Disk) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-ec", `cd "$0"; `+script, d.dir).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

func killNothing() (string, error) { return "no process used it", nil }

func (d *Disk) losePower(t *testing.T, torn bool) string {
	t.Helper()
	back, err := d.LosePower(killNothing, torn)
	if err != nil {
		t.Error(err)
	}
	return back
}

// A mount namespace that another process creates while the disk is mounted has a copy of the mount.
// The copy must not keep the disk alive.
func TestUnmountEndsCopiesInOtherNamespaces(t *testing.T) {
	if !canMount() {
		return // only root can unmount the disk in other namespaces
	}
	d, err := Mount(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Once cat has answered, it runs in the new namespace.
	other := exec.Command("unshare", "--mount", "--propagation", "private", "cat")
	in, err1 := other.StdinPipe()
	out, err2 := other.StdoutPipe()
	if err := errors.Join(err1, err2, other.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); other.Wait() }()
	if _, err := in.Write([]byte{'x'}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := d.Unmount(); err != nil {
		t.Error(err)
	}
}

func TestFileSystemOperations(t *testing.T) {
	d := newDisk(t)
	for script, want := range map[string]string{
		"printf hello > a; cat a":                                                          "hello",
		"printf hello > b; printf ' you' >> b; cat b":                                      "hello you",
		"printf hello > c; printf x > c; cat c":                                            "x",
		"printf hello > d; mv d e; cat e; test ! -e d":                                     "hello",
		"mkdir f; printf 1 > f/1; mv f/1 g; cat g; ls f; rmdir f":                          "1",
		"printf hello > h; truncate -s 4 h; cat h":                                         "hell",
		"printf hello > i; exec 3<i; rm i; cat <&3":                                        "hello",
		"printf 12345 > j; printf x | dd of=j bs=1 seek=2 conv=notrunc status=none; cat j": "12x45",
		"mkdir k; cd k; touch 1 2 3; echo *":                                               "1 2 3\n",
		"head -c 1000000 /dev/zero > l; wc -c < l":                                         "1000000\n",
	} {
		if got := d.sh(t, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func TestPowerLossDropsUnsyncedData(t *testing.T) {
	d := newDisk(t)
	// A sync of one file commits the entries of all files, but not their data.
	d.sh(t, "mkdir dir; printf 1 > dir/synced; printf 2 > dir/other; sync dir/synced; printf 3 >> dir/synced; printf 4 > late")
	if back, want := d.losePower(t, false), "no process used it; lost 1 bytes of dir/other, 1 bytes of dir/synced, late as a whole"; back != want {
		t.Errorf("LosePower returned %q, want %q", back, want)
	}
	if got := d.sh(t, "cat dir/synced dir/other; echo; ls; ls dir"); got != "1\ndir\nother\nsynced\n" {
		t.Errorf("remaining files: %q", got)
	}
	if back := d.losePower(t, false); back != "no process used it; its disk lost 0 records, all was synced" {
		t.Errorf("the second LosePower returned %q", back)
	}
	// Overwriting does not change the synced data.
	d.sh(t, "printf 12345 > f; sync f; printf x | dd of=f bs=1 seek=1 conv=notrunc status=none; printf 6 >> f")
	d.losePower(t, false)
	if got := d.sh(t, "cat f"); got != "12345" {
		t.Errorf("f is %q", got)
	}
	// A new name is a directory entry, which needs a sync too.
	d.sh(t, "printf new > g; sync g; mv g f")
	d.losePower(t, false)
	if got := d.sh(t, "cat f g"); got != "12345new" {
		t.Errorf("f and g are %q", got)
	}
}

func TestTornTailKeepsHalfOfFirstLostWrite(t *testing.T) {
	d := newDisk(t)
	d.sh(t, "printf synced > f; sync f; printf abcdef >> f; printf ghi >> f")
	d.losePower(t, true)
	if got := d.sh(t, "cat f"); got != "syncedabc" {
		t.Errorf("f is %q", got)
	}
	if back := d.losePower(t, true); !strings.HasSuffix(back, "all was synced") {
		t.Errorf("the second LosePower returned %q", back)
	}
}

func TestRequestsFailWithoutPower(t *testing.T) {
	d := newDisk(t)
	d.sh(t, "printf 1 > f; sync f")
	_, err := d.LosePower(func() (string, error) {
		out, err := exec.Command("/bin/sh", "-c", `printf 2 > "$0/f"`, d.dir).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "rror") {
			t.Errorf("write without power: %v, %s", err, out)
		}
		return "", nil
	}, false)
	if err != nil {
		t.Error(err)
	}
	if got := d.sh(t, "cat f"); got != "1" {
		t.Errorf("f is %q", got)
	}
	failingKill := func() (string, error) { return "", syscall.ESRCH }
	if _, err := d.LosePower(failingKill, false); err != syscall.ESRCH {
		t.Errorf("LosePower with a failing kill: %v", err)
	}
}

func TestFullAndStalledDisk(t *testing.T) {
	d := newDisk(t)
	if _, err := d.Fill(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("/bin/sh", "-c", `printf 1 > "$0/f"`, d.dir).CombinedOutput()
	if err == nil || !strings.Contains(strings.ToLower(string(out)), "no space") {
		t.Errorf("write to a full disk: %v, %s", err, out)
	}
	if _, err := d.stall(); err == nil {
		t.Error("a full disk can be stalled")
	}
	if _, err := d.free(); err != nil {
		t.Fatal(err)
	}
	if got := d.sh(t, "printf 1 > f; cat f"); got != "1" {
		t.Errorf("f is %q", got)
	}
	if _, err := d.stall(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sync", d.dir+"/f")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if len(d.ListUnsynced()) != 1 {
		t.Errorf("unsynced: %v", d.ListUnsynced())
	}
	if _, err := d.free(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || len(d.ListUnsynced()) > 0 {
		t.Errorf("the sync completed with %v; unsynced: %v", err, d.ListUnsynced())
	}
}

// A stall can be ended while the power is being cut. It ends immediately, but the probe waits until
// the power is back.
func TestFreeWhilePowerIsCut(t *testing.T) {
	d := newDisk(t)
	if _, err := d.stall(); err != nil {
		t.Fatal(err)
	}
	freeErr := make(chan error, 1)
	if _, err := d.LosePower(func() (string, error) {
		go func() {
			_, err := d.free()
			freeErr <- err
		}()
		for d.IsStalled() {
			time.Sleep(time.Millisecond)
		}
		select {
		case err := <-freeErr:
			t.Errorf("free returned without power: %v", err)
			freeErr <- nil
		case <-time.After(probeTimeout):
		}
		return "", nil
	}, false); err != nil {
		t.Fatal(err)
	}
	if err := <-freeErr; err != nil {
		t.Error(err)
	}
}

// A fault without effect must not be reported as successful.
func TestReadBackDetectsIneffectiveFault(t *testing.T) {
	d := newDisk(t)
	d.powerOff = true // every request fails, but not in the expected way
	if back, err := d.stall(); err == nil {
		t.Errorf("stall returned %q", back)
	}
	d.stallEnd = nil
	if back, err := d.Fill(); err == nil {
		t.Errorf("Fill returned %q", back)
	}
	if back, err := d.free(); err == nil {
		t.Errorf("free returned %q", back)
	}
	d.powerOff = false
}

// A process that inherits the descriptor would keep the file system alive after this process is
// killed.
func TestDescriptorIsClosedOnExec(t *testing.T) {
	newDisk(t)
	found := 0
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, _ := os.Readlink("/proc/self/fd/" + fd.Name()); target == device {
			found++
		}
	}
	out, err := exec.Command("/bin/sh", "-c", "ls -l /proc/self/fd").CombinedOutput()
	if err != nil || strings.Contains(string(out), device) || found == 0 {
		t.Errorf("this process has %d descriptors of %s; a child process has: %s, %v", found, device, out, err)
	}
}
