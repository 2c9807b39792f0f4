package vdso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is the clocks of one machine. The zero value has clocks that are right.
// Rates turn the wall clock, and where Monotonic is set the monotonic clock too;
// jumps turn the wall clock alone, as settimeofday does.
type Machine struct {
	Monotonic bool

	mu    sync.Mutex
	lines [2]line  // see Shown
	mem   *os.File // of the process that runs, or ran last
	at    int64    // the control block's address there
	count [2]uint64
}

// Available is nil where processes can get wrong clocks.
func Available() error { return nil }

var ids = [2]int32{wall: unix.CLOCK_REALTIME, monotonic: unix.CLOCK_MONOTONIC}

// ahead is how long before it is in force a change is written: so the process
// changes from one line to the other at one instant, and a clock that is slowed
// down does not go back by the time that the write took.
const ahead = time.Millisecond

// Start patches a process that starts on the machine: one that the calling thread
// traces and that stands before its first instruction. It reads the machine's
// clocks from then on.
func (m *Machine) Start(pid int) error {
	mem, at, err := patch(pid)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem != nil {
		m.mem.Close()
	}
	m.mem, m.at, m.count = mem, at, [2]uint64{}
	// They are the newer lines and the older: no time is before them.
	for range 2 {
		lines := [2]line{m.shown().line(wall), m.shown().line(monotonic)}
		if err := errors.Join(m.prepare(lines), m.enforce(lines)); err != nil {
			return fmt.Errorf("set the clock of process %d: %w", pid, err)
		}
	}
	return nil
}

// Turn sets the wall clock by `by`, and lets the clocks run at rate from then on.
// It returns once this is in force, and between which instants of true time it
// came to be. Where no process runs, the next one finds it so.
func (m *Machine) Turn(by time.Duration, rate float64) (from, to time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for try := 1; ; try++ {
		at := now(monotonic) + int64(ahead)
		shown, err := m.shown().Turned(time.Duration(at), by, rate, m.Monotonic)
		if err != nil {
			return 0, 0, err
		}
		turned := shown.Lines
		// A process that has ended has no memory: the next one starts with the line.
		if err := m.prepare(turned); err != nil && !errors.Is(err, errEnded) {
			return 0, 0, fmt.Errorf("turn a clock: %w", err)
		}
		if now(monotonic) > at-int64(ahead)/2 && try < mostTries {
			continue // this thread had to wait; nothing is in force yet
		}
		if err := m.enforce(turned); err != nil && !errors.Is(err, errEnded) {
			return 0, 0, fmt.Errorf("turn a clock: %w", err)
		}
		written := now(monotonic)
		m.lines = turned
		time.Sleep(ahead)
		return time.Duration(at), time.Duration(max(at, written)), nil
	}
}

// Close forgets the process. It keeps its clocks as they are.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem == nil {
		return nil
	}
	mem := m.mem
	m.mem = nil
	return mem.Close()
}

// Shown is what its clocks show.
func (m *Machine) Shown() Shown {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown()
}

func (m *Machine) shown() Shown {
	return Shown{Lines: m.lines, Offset: Ahead(func() int64 { return now(monotonic) }, func() int64 { return now(wall) })}
}

// Take lets its clocks show what another's did, before a process starts.
func (m *Machine) Take(s Shown) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = s.Lines
}

var errEnded = errors.New("the process has ended")

// block is where a clock of the control block is, and slot where its older line is.
func (m *Machine) block(which int) int64 { return m.at + int64(which)*64 }
func (m *Machine) slot(which int) int64 {
	return m.block(which) + 8 + int64((m.count[which]+1)&1)*24
}

// prepare writes lines where the process has its older ones, which are not in force
// any more, and reads them back.
func (m *Machine) prepare(lines [2]line) error {
	for which, l := range lines {
		m.count[which] += 2 // the newer line stays in force
		if err := m.put(words(m.count[which]), m.block(which)); err != nil {
			return err
		}
		if err := m.put(words(uint64(l.Real0), uint64(l.Fake0), uint64(l.Rate)), m.slot(which)); err != nil {
			return err
		}
	}
	return nil
}

// enforce makes the lines that were prepared the newer ones.
func (m *Machine) enforce(lines [2]line) error {
	for which := range lines {
		m.count[which]++
		if err := m.put(words(m.count[which]), m.block(which)); err != nil {
			return err
		}
	}
	return nil
}

func words(w ...uint64) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// put writes into the process, and reads back what is there.
func (m *Machine) put(b []byte, at int64) error {
	if m.mem == nil {
		return errEnded
	}
	fd, got := int(m.mem.Fd()), make([]byte, len(b))
	n, err := unix.Pwrite(fd, b, at)
	if err == nil {
		n, err = unix.Pread(fd, got, at)
	}
	switch {
	case err != nil:
		return err
	case n == 0:
		return errEnded
	case !bytes.Equal(got, b):
		return errors.New("the process's memory does not hold what was written")
	}
	return nil
}

// now reads a true clock, by the system call itself.
func now(which int) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(ids[which], &ts); err != nil {
		panic("clock_gettime: " + err.Error()) // can't fail on Linux
	}
	return ts.Nano()
}
