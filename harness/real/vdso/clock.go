// Package clock gives a process a wrong clock, as a machine whose clock is wrong
// would: by rewriting the functions of its vDSO, through which programs read the
// time, so that it reaches any program, whatever it is written in.
//
// Its noun is Machine: the wall clock and the monotonic clock of one machine, on
// which one process runs at a time. They stay as wrong as they are when it ends
// and another starts. Shown is what they show, as data for those who reckon with it
// elsewhere. A line says what a clock shows at an instant of true time.
//
//	program ──► __vdso_clock_gettime ──► jump ──► clock_gettime, the system call
//	                                               then fake0 + (t − real0) · rate
//	                                               of the control block ◄── Machine.Turn
//
// A child that its parent traces is patched before its first instruction. So is the
// program of a container, whose parent is the engine's: it starts as a Gate, which waits
// for a signal of one that traces it, inside of the container or outside, and executes
// the program then.
//
// What it does not reach: programs that make the system call themselves, which
// is how true time is read; sleeps and time-outs, which the kernel counts by its
// own clock; CPU time; programs that the process executes. It needs Linux on amd64.
package vdso

import "errors"

// GateVerb is the argument by which a program of ours becomes a Gate, its first.
const GateVerb = "__gate"

// ErrSignaled says that somebody sent a signal to a process just as it was patched.
var ErrSignaled = errors.New("a signal came from outside")
