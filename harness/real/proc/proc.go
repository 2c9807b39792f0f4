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

import "errors"

// ErrEnded says that a process has ended already.
var ErrEnded = errors.New("process has ended")
