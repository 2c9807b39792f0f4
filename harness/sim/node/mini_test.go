package node

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"lockpick/harness/real/proc"
	"lockpick/harness/resp"
)

var (
	_ Server = (*mini)(nil)
	_ clock  = (*mini)(nil)

	_ dialler = (*mini)(nil)
)

// miniServer is a miniredis in virtual time. It has no disk and can't be killed, and expired keys
// don't come back when its clock is set back.
type mini struct {
	server *miniredis.Miniredis
	now    int64
	clock  *Clock
}

func newMini(t *testing.T) *mini {
	m := &mini{server: miniredis.RunT(t)}
	m.clock = NewClock(started, func() int64 { return m.now })
	m.tell()
	m.server.ClockTTL(true)
	return m
}

// setTime sets the server's clock.
func (m *mini) tell() { m.server.SetTime(time.Unix(0, m.clock.Now()).UTC()) }

func (m *mini) Do(words []string) (resp.Value, error) {
	return proc.Ask(context.Background(), m.server.Addr(), words...)
}

func (m *mini) Wait(d time.Duration) error {
	m.now += int64(max(d, 0))
	m.tell()
	return nil
}

func (m *mini) Dial() (line, error) { return dialTCP(m.server.Addr()) }

func (m *mini) Late() time.Duration { return 0 }

func (m *mini) Turn(by time.Duration, rate float64) error {
	m.clock.Turn(by, rate)
	m.tell()
	return nil
}
