//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dirPrefix    = "lockpick-" // of a run's directory; the owner and a random number follow
	childrenFile = "children"  // in it: a line "pid start" for each child
)

// Sweep removes the directories below dir that dead owners left, with what is mounted
// there, and ends their processes, should any still run. It touches nothing of a living owner, for
// several lockpicks may run at once, nor what it can't tell. It returns what it removed.
func Sweep(dir string) ([]string, error) {
	self, err := Self()
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", dir, err)
	}
	found, err := filepath.Glob(filepath.Join(dir, dirPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", dir, err)
	}
	var removed []string
	var errs []error
	for _, run := range found {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(run), dirPrefix), "-")
		owner, ok := ParseOwner(id)
		if !ok || !owner.Dead(self) {
			continue
		}
		if owner.Boot == self.Boot {
			endChildren(filepath.Join(run, childrenFile))
		}
		err := unmountBelow(run)
		if err == nil {
			err = os.RemoveAll(run)
		}
		if errors.Is(err, fs.ErrPermission) { // another user's: theirs to sweep
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
			continue
		}
		removed = append(removed, run)
	}
	return removed, errors.Join(errs...)
}

// endChildren kills the recorded processes that still are who they were.
func endChildren(record string) {
	b, _ := os.ReadFile(record) // a run that was killed at once has none
	for _, line := range strings.Split(string(b), "\n") {
		var pid int
		var start uint64
		if n, _ := fmt.Sscan(line, &pid, &start); n != 2 || pid <= 1 || !alive(pid, start) {
			continue
		}
		if unix.Kill(pid, unix.SIGKILL) != nil {
			continue // another user's, or gone
		}
		for range 200 { // it may still write into the directory
			if !alive(pid, start) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
