package clock

import (
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
	lines [2]line  // wall clock, monotonic clock; zero: right
	mem   *os.File // of the process that runs, or ran last
	at    int64    // the control block's place there
	count [2]uint64
}

// Available is nil where processes can get wrong clocks.
func Available() error { return nil }

const (
	wall      = 0
	monotonic = 1
)

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
	for which := range m.lines {
		// It is the newer line and the older: there is no time before it.
		l := m.line(which)
		for range 2 {
			if err := m.write(which, l); err != nil {
				return fmt.Errorf("set the clock of process %d: %w", pid, err)
			}
		}
	}
	return nil
}

// Turn sets the wall clock by `by`, and lets the clocks run at rate from then on.
// It returns once this is in force. Where no process runs, the next one finds it so.
func (m *Machine) Turn(by time.Duration, rate float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !(rate > 0 && rate <= 1000) {
		return fmt.Errorf("turn a clock: a rate of %g is not above 0 and up to 1000", rate)
	}
	for which := range m.lines {
		if which == monotonic && !m.Monotonic {
			continue
		}
		t := now(which) + int64(ahead)
		d := int64(by)
		if which == monotonic {
			d = 0
		}
		l := m.line(which).turned(t, d, rate)
		if l.fake0 <= 0 {
			return fmt.Errorf("turn a clock by %v: it would show a time before 1970", by)
		}
		m.lines[which] = l
		// A process that has ended has no memory: the next one starts with the line.
		if err := m.write(which, l); err != nil && !errors.Is(err, errEnded) {
			return fmt.Errorf("turn a clock: %w", err)
		}
	}
	time.Sleep(ahead)
	return nil
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

// Rate is how fast the clocks run, where 1 is right.
func (m *Machine) Rate() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line(wall).speed()
}

// Wall is what the wall clock shows at an instant of true time, which is given by
// CLOCK_MONOTONIC, and what it would show if it were right.
func (m *Machine) Wall(t time.Duration) (shown, true time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	real := int64(t) + now(wall) - now(monotonic)
	return time.Unix(0, m.line(wall).at(real)), time.Unix(0, real)
}

// Mono is what the monotonic clock shows at an instant of true time.
func (m *Machine) Mono(t time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.line(monotonic).at(int64(t)))
}

func (m *Machine) line(which int) line {
	if l := m.lines[which]; l != (line{}) {
		return l
	}
	return right
}

var errEnded = errors.New("the process has ended")

// write puts a line into the control block: into the slot that is not in use, and
// then counts the change. Each is one write, and the count alone decides.
func (m *Machine) write(which int, l line) error {
	if m.mem == nil {
		return errEnded
	}
	next := m.count[which] + 1
	b := binary.LittleEndian.AppendUint64(nil, uint64(l.real0))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.fake0))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.rate))
	block := m.at + int64(which)*64
	if err := m.put(b, block+8+int64(next&1)*24); err != nil {
		return err
	}
	if err := m.put(binary.LittleEndian.AppendUint64(nil, next), block); err != nil {
		return err
	}
	m.count[which] = next
	return nil
}

// put writes into the process, which has no memory once it has ended.
func (m *Machine) put(b []byte, at int64) error {
	n, err := unix.Pwrite(int(m.mem.Fd()), b, at)
	switch {
	case err != nil:
		return err
	case n == 0:
		return errEnded
	case n < len(b):
		return fmt.Errorf("%d of %d bytes were written", n, len(b))
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
