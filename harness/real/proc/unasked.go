//go:build linux

package proc

import (
	"sync"
)

// Happening is what becomes of a child.
type Happening int

const (
	Ended Happening = iota
	Stopped
	WentOn
)

// Unasked is what became of a child that its Group did not do: somebody else sent it a
// signal, or it ended by itself.
type Unasked struct {
	Child string // its name
	What  Happening
	// Paused: it went on in the midst of a pause that the Group had asked for.
	Paused bool
	// Status is the exit status with which it ended; -1: it ended by a signal, or did not end.
	Status int
	Cause  string // what was seen
}

// unasked is what was not asked for, until somebody listens.
type unasked struct {
	mu     sync.Mutex
	tell   func(Unasked)
	untold []Unasked
}

func (u *unasked) add(x Unasked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tell == nil {
		u.untold = append(u.untold, x)
		return
	}
	u.tell(x)
}
