// Package proc runs the processes of a run: redis-servers and clients, and sees
// to it that they never outlive it.
//
// Its nouns are Group (the children of one run and the directory they live in),
// Child (one process, which can be stopped, continued and killed, each with
// confirmation) and Redis (one redis-server on a fixed loopback port). Sweep
// removes what killed lockpicks have left; package owned tells whose it is.
// TrueClock is the clock that no clock fault touches.
//
// Deliberately missing: what the processes say to each other, and faults of
// clocks and disks; Group.AtStart is where a process is got hold of for one. All but TrueClock, MakeDir and Sweep
// needs Linux.
package proc

import (
	"errors"
	"fmt"
	"path/filepath"

	"lockpick/internal/files"
)

// ErrEnded says that a process has ended already.
var ErrEnded = errors.New("process has ended")

// ErrStruck is what Group.AtStart returns if somebody else has sent a signal to the child.
var ErrStruck = errors.New("somebody has sent it a signal")

// Late is the error of a wait that took longer than it may. It says who was waited for.
type Late string

func (l Late) Error() string { return string(l) }

// Timeout is as of package net's errors.
func (Late) Timeout() bool { return true }

// MakeDir makes a temporary folder below dir, and removes before what killed lockpicks
// have left there. Its name tells whose it is, so that it is removed in its turn.
func MakeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir) // who gets it works elsewhere
	if err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if _, err := Sweep(dir); err != nil {
		return "", err
	}
	own, err := files.Temporary.MakeDir(dir)
	if err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	return own, nil
}

// Sweep removes the folders below dir that dead owners left, with what is mounted there,
// and ends their processes, should any still run. It returns what it removed.
func Sweep(dir string) ([]string, error) {
	k := files.Temporary
	k.Before = putAway
	return k.Sweep(dir)
}
