package conformance

import (
	"errors"
	"fmt"
	"time"

	"lockpick/harness/resp"
	"lockpick/harness/sim/node"
)

var (
	_ Server = (*simulated)(nil)
	_ Ender  = (*simulated)(nil)
	_ Disk   = (*simulated)(nil)
	_ Clock  = (*simulated)(nil)
)

// simulated is a node on a machine in virtual time. Syncs come back at once.
type simulated struct {
	now     int64 // true time
	clock   *node.Clock
	disk    *node.Disk // nil: it has none
	node    *node.Node // nil: it is down
	session *node.Session
	lives   int64
}

// started is when virtual time begins.
const started = 946684800e9

func newSimulated(persistence string) *simulated {
	s := &simulated{}
	s.clock = node.NewClock(started, func() int64 { return s.now })
	if persistence != "none" {
		s.disk = node.NewDisk(node.Fsync(persistence))
	}
	s.start()
	return s
}

func (s *simulated) start() {
	s.lives++
	s.node = node.New(node.Config{RunID: fmt.Sprintf("%040x", s.lives), ProcessID: s.lives, Clock: s.clock, Disk: s.disk})
	s.session = s.node.Open()
}

// close drops the node. What it had not written is lost with it.
func (s *simulated) close() {
	s.node.Close()
	s.node, s.session = nil, nil
}

var errDown = errors.New("it is down")

func (s *simulated) Do(words []string) (resp.Value, error) {
	if s.node == nil {
		return resp.Value{}, errDown
	}
	out, _ := s.session.Feed(resp.Append(nil, words...))
	var scan resp.Scanner
	values, err := scan.Feed(out)
	if err != nil || len(values) != 1 {
		return resp.Value{}, fmt.Errorf("%q is not one reply: %w", out, err)
	}
	return values[0], s.flush()
}

// flush does what a Redis does before it answers.
func (s *simulated) flush() error {
	switch s.node.Flush() {
	case node.Background, node.Wait:
		s.disk.Sync()()
		s.node.Synced()
	case node.Die:
		return errors.New("it ended: its disk is full")
	}
	return nil
}

// tick is how often a Redis looks whether something is due.
const tick = 100 * time.Millisecond

func (s *simulated) Wait(d time.Duration) error {
	for d > 0 {
		step := min(d, tick)
		s.now += int64(step)
		d -= step
		if s.node == nil {
			continue
		}
		s.node.Sweep()
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (s *simulated) Late() time.Duration { return 0 }

func (s *simulated) Kill() error {
	if s.node == nil {
		return errDown
	}
	s.close()
	return nil
}

func (s *simulated) Shutdown() error {
	if s.node == nil {
		return errDown
	}
	s.node.Shutdown()
	s.close()
	return nil
}

func (s *simulated) Restart() error {
	if s.node != nil {
		return errors.New("it runs")
	}
	s.start()
	return nil
}

func (s *simulated) LosePower(torn bool) error {
	if s.node == nil {
		return errDown
	}
	s.close()
	if s.disk != nil {
		s.disk.LosePower(torn)
	}
	return nil
}

func (s *simulated) Unsynced() bool {
	return s.disk != nil && (s.disk.Unsynced() > 0 || s.node != nil && s.node.Restless())
}

// Turn drops what has expired before the clock goes back, as Redis has by then.
func (s *simulated) Turn(by time.Duration, rate float64) error {
	if s.node != nil && by < 0 {
		s.node.Sweep()
	}
	s.clock.Turn(by, rate)
	return nil
}
