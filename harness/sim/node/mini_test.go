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
	_ Server = (*miniServer)(nil)
	_ clock  = (*miniServer)(nil)

	_ dialer = (*miniServer)(nil)
)

// miniServer is a miniredis in virtual time. It has no disk and can't be killed, and setting its
// clock back does not bring back expired keys.
type miniServer struct {
	server *miniredis.Miniredis
	now    int64
	clock  *Clock
}

func newMini(t *testing.T) *miniServer {
	m := &miniServer{server: miniredis.RunT(t)}
	m.clock = NewClock(virtualStart, func() int64 { return m.now })
	m.setTime()
	m.server.ClockTTL(true)
	return m
}

func (m *miniServer) setTime() { m.server.SetTime(time.Unix(0, m.clock.Now()).UTC()) }

func (m *miniServer) Do(words []string) (resp.Value, error) {
	return proc.Ask(context.Background(), m.server.Addr(), words...)
}

func (m *miniServer) Wait(d time.Duration) error {
	m.now += int64(max(d, 0))
	m.setTime()
	return nil
}

func (m *miniServer) Dial() (serverConn, error) { return dialTCP(m.server.Addr()) }

func (m *miniServer) Lag() time.Duration { return 0 }

func (m *miniServer) Adjust(by time.Duration, rate float64) error {
	m.clock.Adjust(by, rate)
	m.setTime()
	return nil
}
