//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/internal/files"
)

// otherUID is the ID of a user other than lockpick's.
const otherUID = 65534

func thisProcess(t *testing.T) files.Owner {
	t.Helper()
	o, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// deadOwnerName returns a directory name with an owner that has exited.
func deadOwnerName(t *testing.T) string {
	o := thisProcess(t)
	o.PID = 1<<22 + 1
	return files.Temporary.Prefix + o.String() + "-1"
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// makeLeftover creates a directory below dir like those left behind by a killed lockpick, with a
// record of children.
func makeLeftover(t *testing.T, dir, name string, record ...*Child) string {
	t.Helper()
	path := filepath.Join(dir, name)
	text := "garbage\n"
	for _, c := range record {
		text += fmt.Sprintln(c.pid, c.start)
	}
	must(t, os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, childrenFile), []byte(text), 0o644), os.Mkdir(filepath.Join(path, "n1"), 0o755))
	return path
}

// startSleeper starts a process in the given working directory, or in the group's directory if in is "".
func startSleeper(t *testing.T, g *Group, in string, files ...*os.File) *Child {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "60")
	cmd.Dir, cmd.ExtraFiles = in, files
	c, err := g.Start("sleeper", cmd)
	must(t, err)
	return c
}

func isAlive(c *Child) bool { return files.ProcessRuns(c.pid, c.start) }

func sweep(t *testing.T, dir string) []string {
	t.Helper()
	removed, err := Sweep(dir)
	if err != nil {
		t.Error(err)
	}
	return removed
}

func TestSweepRemovesOnlyDeadOwners(t *testing.T) {
	me := thisProcess(t)
	changed := func(change func(*files.Owner)) files.Owner { o := me; change(&o); return o }
	otherContainer := changed(func(o *files.Owner) { o.Namespace, o.PID = "1", 1<<22+1 })
	otherBoot := changed(func(o *files.Owner) { o.BootID = "00000000" })
	for _, c := range []struct {
		what        string
		o           files.Owner
		old         bool
		wantRemoved bool
	}{
		{"living", me, true, false},
		{"in another container", otherContainer, false, false},
		{"in another container, long ago", otherContainer, true, true},
		{"dead, with its pid reused", changed(func(o *files.Owner) { o.Start-- }), false, true},
		{"dead", changed(func(o *files.Owner) { o.PID = 1<<22 + 1 }), false, true},
		{"of another boot", otherBoot, false, false},
		{"of another boot, long ago", otherBoot, true, true},
	} {
		dir := t.TempDir()
		path := makeLeftover(t, dir, files.Temporary.Prefix+c.o.String()+"-1")
		if c.old {
			old := time.Now().Add(-files.OwnerTimeout - time.Minute)
			must(t, os.Chtimes(path, old, old))
		}
		removed := sweep(t, dir)
		if _, err := os.Stat(path); (err != nil) != c.wantRemoved || len(removed) > 0 != c.wantRemoved {
			t.Errorf("owner %s: removed %v, %v", c.what, removed, err)
		}
	}
}

// Sweep kills a dead run's processes, whether their working directory or an open file identifies
// them, and no others.
func TestSweepKillsOnlyRecordedChildren(t *testing.T) {
	g := newGroup(t)
	dir := t.TempDir()
	path := makeLeftover(t, dir, deadOwnerName(t))
	log, err := os.Create(filepath.Join(path, "n1.log"))
	must(t, err)
	defer log.Close()
	worker, writer, outsider := startSleeper(t, g, path), startSleeper(t, g, "/", log), startSleeper(t, g, "/")
	subdirWorker := startSleeper(t, g, filepath.Join(path, "n1"))
	newProcess := startSleeper(t, g, path) // the record has another process with this PID
	recorded := &Child{pid: newProcess.pid, start: newProcess.start - 1}
	sibling := startSleeper(t, g, dir) // the path has the same prefix
	var text string
	for _, c := range []*Child{worker, writer, subdirWorker, outsider, recorded, sibling} {
		text += fmt.Sprintln(c.pid, c.start)
	}
	must(t, os.WriteFile(filepath.Join(path, childrenFile), []byte(text), 0o644))
	if removed := sweep(t, dir); !slices.Equal(removed, []string{path}) {
		t.Errorf("removed %v", removed)
	}
	for what, c := range map[string]*Child{"works in the directory": worker, "has an open file in the directory": writer, "works below the directory": subdirWorker} {
		if isAlive(c) {
			t.Errorf("a child that %s is still running", what)
		}
	}
	for what, c := range map[string]*Child{"does not use the directory": outsider, "has a former child's PID": newProcess, "works in a sibling directory": sibling} {
		if !isAlive(c) {
			t.Errorf("a process that %s was killed", what)
		}
	}
}

// A child may leave a daemon with its own session and working directory. The daemon is killed when
// the run ends, or by Sweep if the run was killed. Daemons of other runs continue.
func TestDaemonsAreKilledWithTheirRun(t *testing.T) {
	daemon := func(g *Group) *Child {
		t.Helper()
		pidFile := filepath.Join(t.TempDir(), "pid")
		c, err := g.Start("parent", exec.Command("/bin/sh", "-c", "cd /; setsid sh -c 'echo $$ >"+pidFile+"; exec sleep 60' </dev/null >/dev/null 2>&1 &"))
		must(t, err)
		<-c.done
		d := &Child{}
		for ctx := t.Context(); d.pid == 0 && ctx.Err() == nil; {
			text, _ := os.ReadFile(pidFile)
			fmt.Sscan(string(text), &d.pid)
		}
		stat, err := files.StatOf(d.pid)
		must(t, err)
		d.start = stat.Start
		return d
	}
	g, other := newGroup(t), newGroup(t)
	ownDaemon, otherDaemon := daemon(g), daemon(other)
	if !isAlive(ownDaemon) || !isAlive(otherDaemon) {
		t.Fatal("a daemon exited on its own")
	}
	must(t, g.Close())
	if isAlive(ownDaemon) || !isAlive(otherDaemon) {
		t.Errorf("after the end of its run, the daemon is running: %v; another run's daemon: %v", isAlive(ownDaemon), isAlive(otherDaemon))
	}

	dir := t.TempDir()
	path := makeLeftover(t, dir, deadOwnerName(t))
	cmd := exec.Command("/bin/sleep", "60")
	cmd.Dir, cmd.Env = "/", []string{runEnv + "=" + path}
	must(t, cmd.Start())
	go cmd.Wait()
	stat, err := files.StatOf(cmd.Process.Pid)
	must(t, err)
	sweep(t, dir)
	if files.ProcessRuns(cmd.Process.Pid, stat.Start) {
		t.Error("a daemon of a killed run is still running")
		cmd.Process.Kill()
	}
	if !isAlive(otherDaemon) {
		t.Error("Sweep killed another run's daemon")
	}
}

// Every process started by a Group is recognized, including servers that change their directory and
// clear their environment.
func TestChildrenAreRecognized(t *testing.T) {
	bin := redisServer(t)
	g := newGroup(t)
	r, err := g.StartRedis(t.Context(), "n1", bin, "always")
	must(t, err)
	s, err := g.StartSentinel(t.Context(), "s1", bin)
	must(t, err)
	_ = s
	children := append(slices.Clone(g.children), startSleeper(t, g, ""))
	for _, c := range children {
		if isAlive(c) && !usesDir(c.pid, g.Dir) {
			t.Errorf("process %d is not recognized", c.pid)
		}
	}
	if len(children) < 3 || !r.Running() {
		t.Errorf("%d children, want at least 3 with a running server", len(children))
	}
}

// Sweep does not touch other users' files in a shared directory, whatever they look like.
func TestSweepLeavesOtherUsersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create files of another user")
	}
	g := newGroup(t)
	bystander := startSleeper(t, g, "/")
	tempDir := func() string { // writable by everybody
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o1777))
		return dir
	}
	for what, create := range map[string]func(dir, path string){
		"another user's directory": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path), bystander)
			must(t, os.Chown(path, otherUID, otherUID))
		},
		"another user's link": func(dir, path string) {
			to := makeLeftover(t, dir, "real", bystander)
			must(t, os.Symlink(to, path), os.Lchown(path, otherUID, otherUID))
		},
		"our link": func(dir, path string) { must(t, os.Symlink(makeLeftover(t, dir, "real", bystander), path)) },
		"our file": func(dir, path string) { must(t, os.WriteFile(path, []byte("mine"), 0o600)) },
		"a record that is a link": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path))
			record := filepath.Join(path, childrenFile)
			text := fmt.Sprintln(bystander.pid, bystander.start)
			must(t, os.WriteFile(filepath.Join(dir, "record"), []byte(text), 0o644), os.Remove(record), os.Symlink("../record", record))
		},
		"a record that is a pipe": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path))
			record := filepath.Join(path, childrenFile)
			must(t, os.Remove(record), unix.Mkfifo(record, 0o600))
		},
		"an oversized record": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path), bystander)
			must(t, os.Truncate(filepath.Join(path, childrenFile), 1<<40))
		},
	} {
		dir := tempDir()
		path := filepath.Join(dir, deadOwnerName(t))
		create(dir, path)
		before := tree(t, dir)
		if removed := sweep(t, dir); len(removed) > 0 {
			t.Errorf("%s: removed %v", what, removed)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("%s: before:\n%s, after:\n%s", what, before, after)
		}
		if !isAlive(bystander) {
			t.Fatalf("%s: an unrelated process was killed", what)
		}
	}
}

// tree lists everything below a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		fmt.Fprintln(&b, path, d.Type(), err)
		return err
	}))
	return b.String()
}

// Sweep unmounts nothing but lockpick's disks, and does not follow symbolic links.
func TestSweepUnmountsOnlyDisks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	mountAt := func(source, kind, at string, flags uintptr) {
		if err := unix.Mount(source, at, kind, flags, ""); err != nil {
			t.Skipf("mounting is not possible: %v", err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
	}
	dir, other := t.TempDir(), t.TempDir() // Sweep must not change other
	must(t, os.Mkdir(filepath.Join(other, "tmpfs"), 0o700), os.Mkdir(filepath.Join(other, "kept"), 0o700))
	mountAt("other", "tmpfs", filepath.Join(other, "tmpfs"), 0)
	must(t, os.WriteFile(filepath.Join(other, "tmpfs", "precious"), nil, 0o600), os.WriteFile(filepath.Join(other, "kept", "precious"), nil, 0o600))

	name := func(n int) string { return fmt.Sprintf("%s%d", deadOwnerName(t), n) }
	must(t, os.Symlink(other, filepath.Join(dir, name(1)))) // the directory itself is a link
	linkDir := makeLeftover(t, dir, name(2))                // a link inside the directory
	must(t, os.Symlink(other, filepath.Join(linkDir, "n2")))
	bindDir := makeLeftover(t, dir, name(3)) // something other than a disk is mounted
	mountAt(filepath.Join(other, "kept"), "", filepath.Join(bindDir, "n1"), unix.MS_BIND)
	tmpfsDir := makeLeftover(t, dir, name(4))
	mountAt("lockpick", "tmpfs", filepath.Join(tmpfsDir, "n1"), 0)
	mountPoint := filepath.Join(dir, name(5)) // the directory itself is a mount point
	must(t, os.Mkdir(mountPoint, 0o700))
	mountAt("other", "tmpfs", mountPoint, 0)
	must(t, os.Chmod(mountPoint, 0o700), os.WriteFile(filepath.Join(mountPoint, "precious"), nil, 0o600))

	count := func() int { return len(strings.Split(tree(t, other), "\n")) }
	entriesBefore, mountsBefore := count(), mountsBelow(t, dir, other)
	if removed := sweep(t, dir); !slices.Equal(removed, []string{linkDir}) { // the link inside is ours, but its target is not
		t.Errorf("removed %v", removed)
	}
	if entriesAfter, mountsAfter := count(), mountsBelow(t, dir, other); entriesAfter != entriesBefore || mountsAfter != mountsBefore || mountsBefore != 4 {
		t.Errorf("%d entries before and %d after; %d mounts before and %d after", entriesBefore, entriesAfter, mountsBefore, mountsAfter)
	}
	for _, path := range []string{bindDir, tmpfsDir, filepath.Join(mountPoint, "precious")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func mountsBelow(t *testing.T, dirs ...string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for _, m := range parseMounts(string(b)) {
		for _, dir := range dirs {
			if strings.HasPrefix(m.point, dir+"/") {
				n++
			}
		}
	}
	return n
}
