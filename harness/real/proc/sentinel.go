package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/resp"
)

// Sentinel is a redis-server in sentinel mode, which is what redis-sentinel is.
type Sentinel struct{ *Server }

// SentinelSettings is how sentinels watch a master.
type SentinelSettings struct {
	Quorum          int           // sentinels that must agree that it is down
	DownAfter       time.Duration // without an answer for so long it is
	FailoverTimeout time.Duration // and other bounds of Redis's: see failover-timeout in sentinel.conf
}

// eager lets sentinels look more often than once in ten seconds at what a server says
// it is, and meet each other sooner than after two: a run lasts some seconds. For a
// ping-period after a try, a second by default, they don't connect again: with one
// that is near their patience, or above, they take a master that they have just
// promoted for dead, and promote the dead one again once it is back. Five ping-periods
// must hold an INFO of a replica whose master is down, which has a second of its own.
// After a stall of two seconds it trusts its own clock no more and only looks on, for
// half a minute by default, which is as long as anybody waits for it here.
// Redis has this for its own tests, since 7.0; a sentinel before goes its own pace.
var eager = []string{"INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "PING-PERIOD", "400", "TILT-PERIOD", "2000"}

// NewSentinel takes a server that runs and watches nobody yet.
func NewSentinel(ctx context.Context, s *Server) (*Sentinel, error) {
	info, err := s.tell(ctx, "INFO", "server")
	if err != nil {
		return nil, err
	}
	if mode := field(info, "redis_mode"); mode != "sentinel" {
		return nil, fmt.Errorf("start %s: its mode is %q", s.Name, mode)
	}
	s.Ask(ctx, s.At, append([]string{"SENTINEL", "DEBUG"}, eager...)...) // or it has no such command
	return &Sentinel{s}, nil
}

// Watch lets it watch the master at addr under a name.
func (s *Sentinel) Watch(ctx context.Context, name, addr string, set SentinelSettings) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("let %s watch %s: %w", s.Name, addr, err)
	}
	if _, err := s.tell(ctx, "SENTINEL", "MONITOR", name, host, port, strconv.Itoa(set.Quorum)); err != nil {
		return err
	}
	if _, err := s.tell(ctx, "SENTINEL", "SET", name, "down-after-milliseconds", ms(set.DownAfter)); err != nil {
		return err
	}
	return s.SetFailoverTimeout(ctx, name, set.FailoverTimeout)
}

// SetFailoverTimeout changes it, at once: a wait that is under way is measured by the
// new one, too.
func (s *Sentinel) SetFailoverTimeout(ctx context.Context, name string, d time.Duration) error {
	_, err := s.tell(ctx, "SENTINEL", "SET", name, "failover-timeout", ms(d))
	return err
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Meet returns once it has met as many sentinels of a master as there are, itself
// one of them, and knows a replica of it that is well.
func (s *Sentinel) Meet(ctx context.Context, name string, sentinels int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyBound, errAlone)
	defer cancel()
	for {
		quorum, err := s.tell(ctx, "SENTINEL", "CKQUORUM", name)
		if err == nil && strings.HasPrefix(quorum, fmt.Sprintf("OK %d ", sentinels)) && s.hasReplica(ctx, name) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("let %s watch %s: %w; it says %q", s.Name, name, context.Cause(ctx), quorum), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

var errAlone = late(fmt.Sprintf("it has not met the others or the replica in %v", readyBound))

// hasReplica says whether it knows a replica that it could promote.
func (s *Sentinel) hasReplica(ctx context.Context, name string) bool {
	v, err := s.Ask(ctx, s.At, "SENTINEL", "REPLICAS", name)
	if err != nil || len(v.Items) != 1 {
		return false
	}
	is := pairs(v.Items[0])
	return is["flags"] == "slave" && is["role-reported"] == "slave" && is["master-link-status"] == "ok"
}

// SeesDown says whether it takes a master for dead.
func (s *Sentinel) SeesDown(ctx context.Context, name string) bool {
	v, err := s.Ask(ctx, s.At, "SENTINEL", "MASTER", name)
	return err == nil && slices.Contains(strings.Split(pairs(v)["flags"], ","), "s_down")
}

// pairs reads name, value, name …
func pairs(v resp.Value) map[string]string {
	is := map[string]string{}
	for i := 0; i+1 < len(v.Items); i += 2 {
		is[v.Items[i].Str] = v.Items[i+1].Str
	}
	return is
}

// Master is the address of a master as it sees it.
func (s *Sentinel) Master(ctx context.Context, name string) (addr string, err error) {
	v, err := s.Ask(ctx, s.At, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
	if err != nil {
		return "", err
	}
	if len(v.Items) != 2 {
		return "", fmt.Errorf("ask %s for the master of %s: it knows none", s.Name, name)
	}
	return net.JoinHostPort(v.Items[0].Str, v.Items[1].Str), nil
}
