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
	o, err := files.Self()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// deadOwnerName returns the name of a directory whose owner has exited.
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

// makeLeftover creates a directory below dir such as a killed lockpick leaves behind, with a
// record of its children.
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

// sleeper starts a process with the working directory in. If in is "", it is the group's
// directory.
func sleeper(t *testing.T, g *Group, in string, files ...*os.File) *Child {
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
	with := func(change func(*files.Owner)) files.Owner { o := me; change(&o); return o }
	otherContainer := with(func(o *files.Owner) { o.Space, o.PID = "1", 1<<22+1 })
	otherBoot := with(func(o *files.Owner) { o.Boot = "00000000" })
	for _, c := range []struct {
		what string
		o    files.Owner
		old  bool
		goes bool
	}{
		{"living", me, true, false},
		{"in another container", otherContainer, false, false},
		{"in another container, long ago", otherContainer, true, true},
		{"dead, with its pid reused", with(func(o *files.Owner) { o.Start-- }), false, true},
		{"dead", with(func(o *files.Owner) { o.PID = 1<<22 + 1 }), false, true},
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
		if _, err := os.Stat(path); (err != nil) != c.goes || len(removed) > 0 != c.goes {
			t.Errorf("owner %s: removed %v, %v", c.what, removed, err)
		}
	}
}

// Sweep kills the processes of a dead run, however they are recognized, and no others.
func TestSweepKillsOnlyRecordedChildren(t *testing.T) {
	g := newGroup(t)
	dir := t.TempDir()
	path := makeLeftover(t, dir, deadOwnerName(t))
	log, err := os.Create(filepath.Join(path, "n1.log"))
	must(t, err)
	defer log.Close()
	worker, writer, elsewhere := sleeper(t, g, path), sleeper(t, g, "/", log), sleeper(t, g, "/")
	below := sleeper(t, g, filepath.Join(path, "n1"))
	later := sleeper(t, g, path) // the record names another process with this pid
	recorded := &Child{pid: later.pid, start: later.start - 1}
	sibling := sleeper(t, g, dir) // its path has the same prefix
	var text string
	for _, c := range []*Child{worker, writer, below, elsewhere, recorded, sibling} {
		text += fmt.Sprintln(c.pid, c.start)
	}
	must(t, os.WriteFile(filepath.Join(path, childrenFile), []byte(text), 0o644))
	if removed := sweep(t, dir); !slices.Equal(removed, []string{path}) {
		t.Errorf("removed %v", removed)
	}
	for what, c := range map[string]*Child{"works in the folder": worker, "has a file open there": writer, "works below the folder": below} {
		if isAlive(c) {
			t.Errorf("a child that %s is still running", what)
		}
	}
	for what, c := range map[string]*Child{"has nothing to do with the folder": elsewhere, "has the number of a child": later, "works in a sibling folder": sibling} {
		if !isAlive(c) {
			t.Errorf("a process that %s was killed", what)
		}
	}
}

// A child may leave a daemon in its own session and working directory. It is killed when the run
// ends, or by Sweep if the run was killed. Daemons of other runs keep running.
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
	ends, stays := daemon(g), daemon(other)
	if !isAlive(ends) || !isAlive(stays) {
		t.Fatal("a daemon ended by itself")
	}
	must(t, g.Close())
	if isAlive(ends) || !isAlive(stays) {
		t.Errorf("after the run its daemon runs: %v, that of another run: %v", isAlive(ends), isAlive(stays))
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
	if !isAlive(stays) {
		t.Error("the sweep ended another run's daemon")
	}
}

// Every process that a Group starts is recognized, including servers that change their directory
// and clear their environment.
func TestChildrenAreRecognized(t *testing.T) {
	bin := redisServer(t)
	g := newGroup(t)
	r, err := g.StartRedis(t.Context(), "n1", bin, "always")
	must(t, err)
	s, err := g.StartSentinel(t.Context(), "s1", bin)
	must(t, err)
	_ = s
	children := append(slices.Clone(g.children), sleeper(t, g, ""))
	for _, c := range children {
		if isAlive(c) && !usesDir(c.pid, g.Dir) {
			t.Errorf("process %d is not recognized", c.pid)
		}
	}
	if len(children) < 3 || !r.Running() {
		t.Errorf("%d children", len(children))
	}
}

// Sweep does not touch other users' files in a shared directory, whatever they look like.
func TestSweepLeavesOtherUsersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create files of another user")
	}
	g := newGroup(t)
	innocent := sleeper(t, g, "/")
	tempDir := func() string { // anybody may write to it
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o1777))
		return dir
	}
	for what, plant := range map[string]func(dir, path string){
		"another user's folder": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path), innocent)
			must(t, os.Chown(path, otherUID, otherUID))
		},
		"a link of another user": func(dir, path string) {
			to := makeLeftover(t, dir, "real", innocent)
			must(t, os.Symlink(to, path), os.Lchown(path, otherUID, otherUID))
		},
		"a link of ours": func(dir, path string) { must(t, os.Symlink(makeLeftover(t, dir, "real", innocent), path)) },
		"a file of ours": func(dir, path string) { must(t, os.WriteFile(path, []byte("mine"), 0o600)) },
		"a record that is a link": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path))
			record := filepath.Join(path, childrenFile)
			text := fmt.Sprintln(innocent.pid, innocent.start)
			must(t, os.WriteFile(filepath.Join(dir, "record"), []byte(text), 0o644), os.Remove(record), os.Symlink("../record", record))
		},
		"a record that is a pipe": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path))
			record := filepath.Join(path, childrenFile)
			must(t, os.Remove(record), unix.Mkfifo(record, 0o600))
		},
		"a record without end": func(dir, path string) {
			makeLeftover(t, dir, filepath.Base(path), innocent)
			must(t, os.Truncate(filepath.Join(path, childrenFile), 1<<40))
		},
	} {
		dir := tempDir()
		path := filepath.Join(dir, deadOwnerName(t))
		plant(dir, path)
		before := tree(t, dir)
		if removed := sweep(t, dir); len(removed) > 0 {
			t.Errorf("%s: removed %v", what, removed)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("%s: before:\n%s, after:\n%s", what, before, after)
		}
		if !isAlive(innocent) {
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

// Sweep unmounts only lockpick's disks, and it does not follow symbolic links.
func TestSweepUnmountsOnlyDisks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	mountAt := func(source, kind, at string, flags uintptr) {
		if err := unix.Mount(source, at, kind, flags, ""); err != nil {
			t.Skipf("nothing can be mounted here: %v", err)
		}
		t.Cleanup(func() { unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
	}
	dir, other := t.TempDir(), t.TempDir() // everything in other must stay
	must(t, os.Mkdir(filepath.Join(other, "tmpfs"), 0o700), os.Mkdir(filepath.Join(other, "kept"), 0o700))
	mountAt("other", "tmpfs", filepath.Join(other, "tmpfs"), 0)
	must(t, os.WriteFile(filepath.Join(other, "tmpfs", "precious"), nil, 0o600), os.WriteFile(filepath.Join(other, "kept", "precious"), nil, 0o600))

	name := func(n int) string { return fmt.Sprintf("%s%d", deadOwnerName(t), n) }
	must(t, os.Symlink(other, filepath.Join(dir, name(1)))) // the directory itself is a link
	within := makeLeftover(t, dir, name(2))                 // a link inside the directory
	must(t, os.Symlink(other, filepath.Join(within, "n2")))
	bound := makeLeftover(t, dir, name(3)) // something other than a disk is mounted
	mountAt(filepath.Join(other, "kept"), "", filepath.Join(bound, "n1"), unix.MS_BIND)
	otherKind := makeLeftover(t, dir, name(4))
	mountAt("lockpick", "tmpfs", filepath.Join(otherKind, "n1"), 0)
	mountPoint := filepath.Join(dir, name(5)) // the directory itself is a mount point
	must(t, os.Mkdir(mountPoint, 0o700))
	mountAt("other", "tmpfs", mountPoint, 0)
	must(t, os.Chmod(mountPoint, 0o700), os.WriteFile(filepath.Join(mountPoint, "precious"), nil, 0o600))

	count := func() int { return len(strings.Split(tree(t, other), "\n")) }
	entriesBefore, mountsBefore := count(), mountsBelow(t, dir, other)
	if removed := sweep(t, dir); !slices.Equal(removed, []string{within}) { // the link is ours, but not its target
		t.Errorf("removed %v", removed)
	}
	if entriesAfter, mountsAfter := count(), mountsBelow(t, dir, other); entriesAfter != entriesBefore || mountsAfter != mountsBefore || mountsBefore != 4 {
		t.Errorf("had %d entries, now %d; had %d mounts, now %d", entriesBefore, entriesAfter, mountsBefore, mountsAfter)
	}
	for _, path := range []string{bound, otherKind, filepath.Join(mountPoint, "precious")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func mountsBelow(t *testing.T, dirs ...string) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for _, m := range mounts(string(b)) {
		for _, dir := range dirs {
			if strings.HasPrefix(m.point, dir+"/") {
				n++
			}
		}
	}
	return n
}
