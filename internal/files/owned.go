// Package owned gives files and folders names that tell which process made them, and
// removes those whose process has ended without removing them itself.
//
// Its nouns are Owner, which identifies a process among all that ever ran, and Kind, a
// sort of names: Temporary for folders below the system's temporary directory, Unfinished
// for what appears in a store by a rename. A name alone proves nothing, for others may
// write into a shared directory, too: only what belongs to this user counts, and no link is
// followed.
// Stat is what Linux tells of a process, by which it is known again; Quit has one tell where it
// stands.
//
// Deliberately missing: processes and mounts that a folder's owner may have left; Kind.Before
// is where package proc ends them.
package files

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Kind is a sort of names: what stands in front of the owner, and what may have them.
type ownedKind struct {
	Prefix string
	Files  bool // files and links have such names, too, not only folders
	// Before, if it is set, puts away what is in the way of removing a folder of an owner
	// that has ended. If it returns ErrLeave, the folder stays. known reports that the owner ran in
	// this boot and PID namespace, so process ids noted in the folder mean something here.
	Before func(dir string, known bool) error
}

var (
	// Temporary is folders in the system's temporary directory.
	Temporary = ownedKind{Prefix: "lockpick-"}
	// Unfinished is what gets another name in a store once it is whole.
	Unfinished = ownedKind{Prefix: ".new-", Files: true}
)

// ErrLeave says that a folder is to stay as it is.
var ErrLeave = errors.New("the folder stays")

// Name is a name that nothing has.
func (k ownedKind) Name() (string, error) {
	self, err := Self()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%s-%d", k.Prefix, self, rand.Uint64()), nil
}

// MakeDir makes a folder below dir that only this user may enter.
func (k ownedKind) MakeDir(dir string) (string, error) {
	name, err := k.Name()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.Mkdir(path, 0o700)
}

// owner reads the owner off a name.
func (k ownedKind) owner(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, k.Prefix)
	if !ok {
		return Owner{}, false
	}
	id, _, _ := strings.Cut(rest, "-")
	return ParseOwner(id)
}

// Patience is how old something has to be before an owner that can't be looked for, as on
// another machine or before this one started again, is taken for one that has ended.
const OwnedPatience = 24 * time.Hour

// Ended says whether o has certainly ended, as seen from self, or can't be looked for and
// touched nothing for longer than Patience.
func (o Owner) Ended(self Owner, touched time.Time) bool {
	if o.near(self) {
		return !o.runs()
	}
	return time.Since(touched) > OwnedPatience
}

// Owner identifies a process among all that ever ran.
type Owner struct {
	Boot  string // first part of the boot id, which tells machines apart, too
	Space string // inode of the PID namespace, since two containers may share a directory
	PID   int
	Start uint64 // clock ticks from boot to its start
}

func (o Owner) String() string { return fmt.Sprintf("%s.%s.%d.%d", o.Boot, o.Space, o.PID, o.Start) }

// Parse is the reverse of String.
func ParseOwner(s string) (Owner, bool) {
	f := strings.Split(s, ".")
	if len(f) != 4 {
		return Owner{}, false
	}
	pid, err1 := strconv.Atoi(f[2])
	start, err2 := strconv.ParseUint(f[3], 10, 64)
	return Owner{Boot: f[0], Space: f[1], PID: pid, Start: start}, err1 == nil && err2 == nil && pid > 0
}
