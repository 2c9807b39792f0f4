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

// asker sends one command to the server at addr, on a connection of its own, and returns
// its reply. An error reply is a reply.
type asker func(ctx context.Context, addr string, args ...string) (resp.Value, error)

// Server is one redis-server.
type Server struct {
	Name string
	At   string        // host:port, where other servers reach it, too
	Ask  asker         // as whoever starts it can
	Log  func() string // the end of what it has to say
}

// Addr is its host:port.
func (s *Server) Addr() string { return s.At }

// Redis is the server itself, for those who have it as a part of something larger.
func (s *Server) Redis() *Server { return s }

const (
	joinBound  = 30 * time.Second       // how long those of a store may take to be one
	readyBound = 10 * time.Second       // how long a server may take to answer
	helloBound = 200 * time.Millisecond // how long one try waits: whoever has the port may be no server
	endBound   = 5 * time.Second        // how long it may take to end when it is asked to
)

// errSilent says that a server runs and does not answer.
var errSilent = Late("no answer in time")

// ErrWontStart says that a server ends when it is started.
var ErrWontStart = errors.New("redis-server ended")

// Identity is who a server says that it is.
type Identity struct {
	Process string // process_id, in its own PID namespace
	Run     string // run_id, another at each start
}

// Hello asks once whether it is ready, and who it is.
func (s *Server) Hello(ctx context.Context) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, helloBound)
	defer cancel()
	v, err := s.Ask(ctx, s.At, "PING")
	if err != nil || v.Str != "PONG" {
		return Identity{}, errors.Join(errors.New("not ready"), err)
	}
	v, err = s.Ask(ctx, s.At, "INFO", "server")
	return Identity{Process: field(v.Str, "process_id"), Run: field(v.Str, "run_id")}, err
}

// Ready waits until somebody answers PING at its address, and returns who. One that
// ends instead, as with a disk that it can't read, is ErrWontStart.
func (s *Server) Ready(ctx context.Context, ended <-chan struct{}) (id Identity, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyBound, errSilent)
	defer cancel()
	err = s.Await(ctx, ended, time.Millisecond, func(ctx context.Context) (err error) {
		id, err = s.Hello(ctx) // it may not be listening yet, or loading
		return err
	})
	return id, err
}

// Await is Ready of a server that is asked something else, and every so often; it may take as
// long as a store takes to become one.
func (s *Server) Await(ctx context.Context, ended <-chan struct{}, every time.Duration, hello func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinBound, errSilent)
	defer cancel()
	for {
		select {
		case <-ended:
			return fmt.Errorf("%w:\n%s", ErrWontStart, s.Log())
		case <-ctx.Done():
			err := context.Cause(ctx)
			if err == errSilent {
				err = fmt.Errorf("%w\n%s", err, s.Log())
			}
			return err
		case <-time.After(every):
		}
		if hello(ctx) == nil {
			return nil
		}
	}
}

// Again reads back that it has begun anew, and how many keys it has.
func (s *Server) Again(ctx context.Context, before, now Identity) (readBack string, err error) {
	if now.Run == before.Run {
		return "", fmt.Errorf("restart %s: run_id is still %s", s.Name, before.Run)
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", s.Name, err)
	}
	return fmt.Sprintf("run_id %.8s was %.8s (keys: %d)", now.Run, before.Run, keys), nil
}

// Shutdown asks it to end in good order, and returns once it has. mayEnd is told whether it is being
// asked to, and status says how it ended.
func (s *Server) Shutdown(ctx context.Context, ended <-chan struct{}, mayEnd func(bool), status func() error) error {
	mayEnd(true)
	if err := s.end(ctx, ended); err != nil {
		mayEnd(false)
		return err
	}
	if err := status(); err != nil {
		return fmt.Errorf("shut %s down: it ended with %w:\n%s", s.Name, err, s.Log())
	}
	return nil
}

// end asks it to end, and returns once it has ended, however.
func (s *Server) end(ctx context.Context, ended <-chan struct{}) error {
	// One that ends as asked closes the connection without an answer.
	if v, err := s.Ask(ctx, s.At, "SHUTDOWN"); err == nil {
		return fmt.Errorf("shut %s down: it says %q", s.Name, v.Str)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut %s down: %w", s.Name, context.Cause(ctx))
	case <-time.After(endBound):
		return fmt.Errorf("shut %s down: it is still there after %v", s.Name, endBound)
	}
}

// Keys is how many keys it has.
func (s *Server) Keys(ctx context.Context) (int64, error) {
	v, err := s.Ask(ctx, s.At, "DBSIZE")
	return v.Int, err
}

// Touched is the key that Touch writes. No lock uses it.
const Touched = "lockpick-touched"

// Touch writes a key, past all links, and reads it back.
func (s *Server) Touch(ctx context.Context, value string) (readBack string, err error) {
	if _, err := s.tell(ctx, "SET", Touched, value); err != nil {
		return "", err
	}
	is, err := s.tell(ctx, "GET", Touched)
	if err != nil {
		return "", err
	}
	if is != value {
		return "", fmt.Errorf("touch %s: the key is %q, not %s", s.Name, is, value)
	}
	return fmt.Sprintf("the key %s is %s", Touched, value), nil
}

// tell sends a command whose error replies are errors.
func (s *Server) tell(ctx context.Context, args ...string) (string, error) {
	v, err := s.Ask(ctx, s.At, args...)
	if err == nil && v.Kind == '-' {
		err = errors.New(v.Str)
	}
	if err != nil {
		return "", fmt.Errorf("tell %s %s: %w", s.Name, args[0], err)
	}
	return v.Str, nil
}

func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// persistence lists redis's arguments for each mode of a scenario's topology.
var persistence = map[string][]string{
	"none":     {"--appendonly", "no"},
	"always":   {"--appendonly", "yes", "--appendfsync", "always"},
	"everysec": {"--appendonly", "yes", "--appendfsync", "everysec"},
	"no":       {"--appendonly", "yes", "--appendfsync", "no"},
}

// tells lets a server tell of all that is done to keys, as package keylife reads it, and never
// lets go of who is slow to read that.
var tells = []string{"--notify-keyspace-events", "KA", "--client-output-buffer-limit", "pubsub 0 0 0"}

// RedisArgs are redis-server's arguments on any real backend, beyond where it listens and
// where its data are, for a mode of persistence.
func RedisArgs(persist string) ([]string, error) {
	args, ok := persistence[persist]
	if !ok {
		return nil, fmt.Errorf("persistence %q is none of none, everysec, always, no", persist)
	}
	common := []string{"--databases", "1", "--save", "", "--repl-diskless-sync-delay", "0"} // a replica need not wait for others
	return slices.Concat(common, tells, args), nil
}

// SentinelConfig is what a sentinel begins with that others reach at a host. It must
// be in a file that the sentinel can write to, beside which it can make others; the
// arguments are SentinelArgs.
func SentinelConfig(host string) string { return "sentinel announce-ip " + host + "\n" }

// SentinelArgs are redis-server's arguments for a sentinel, before where it listens,
// with the path of its configuration.
func SentinelArgs(config string) []string { return []string{config, "--sentinel"} }

// Follow makes it an asynchronous replica of the server at addr, and returns once
// it has all that is there.
func (s *Server) Follow(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("let %s follow %s: %w", s.Name, addr, err)
	}
	ownHost, ownPort, err := net.SplitHostPort(s.At)
	if err != nil {
		return fmt.Errorf("let %s follow %s: %w", s.Name, addr, err)
	}
	// Sentinels look for a replica where its master reports it, which would be the address of the
	// link between the two.
	for _, command := range [][]string{
		{"CONFIG", "SET", "replica-announce-ip", ownHost},
		{"CONFIG", "SET", "replica-announce-port", ownPort},
		{"REPLICAOF", host, port},
	} {
		if _, err := s.tell(ctx, command...); err != nil {
			return err
		}
	}
	for end := time.Now().Add(readyBound); ; {
		info, err := s.tell(ctx, "INFO", "replication")
		if err != nil {
			return err
		}
		if field(info, "master_link_status") == "up" {
			return nil
		}
		if time.Now().After(end) {
			return Late(fmt.Sprintf("let %s follow %s: not in step after %v\n%s", s.Name, addr, readyBound, s.Log()))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Promote makes a replica a master of its own, with what it has got by now, and says
// which process that is and how many keys it has.
func (s *Server) Promote(ctx context.Context) (readBack string, err error) {
	if _, err := s.tell(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return "", err
	}
	return s.Promoted(ctx)
}

// Promoted reads back that a replica is a master now, whoever has made it one.
func (s *Server) Promoted(ctx context.Context) (readBack string, err error) {
	info, err := s.tell(ctx, "INFO")
	if err != nil {
		return "", err
	}
	if role := field(info, "role"); role != "master" {
		return "", fmt.Errorf("promote %s: its role is still %q", s.Name, role)
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", fmt.Errorf("promote %s: %w", s.Name, err)
	}
	return fmt.Sprintf("process %s, run_id %.8s (keys: %d)", field(info, "process_id"), field(info, "run_id"), keys), nil
}

// Follows says whether it is a replica of the server at addr and has all of it.
func (s *Server) Follows(ctx context.Context, addr string) (bool, error) {
	info, err := s.tell(ctx, "INFO", "replication")
	if err != nil {
		return false, err
	}
	master := net.JoinHostPort(field(info, "master_host"), field(info, "master_port"))
	return field(info, "role") == "slave" && master == addr && field(info, "master_link_status") == "up", nil
}

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

var errAlone = Late(fmt.Sprintf("it has not met the others or the replica in %v", readyBound))

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
