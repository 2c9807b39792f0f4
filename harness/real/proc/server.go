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

// askFunc sends one command to the server at addr on a new connection and returns the reply, which
// may be an error reply.
type askFunc func(ctx context.Context, addr string, args ...string) (resp.Value, error)

// Server is one redis-server.
type Server struct {
	Name     string
	HostPort string        // host:port at which other servers reach this server
	Ask      askFunc       // depends on how the server was started
	Log      func() string // returns the last part of the log
}

// Addr returns the server's address as host:port.
func (s *Server) Addr() string { return s.HostPort }

// Redis returns the server itself, for types that embed it.
func (s *Server) Redis() *Server { return s }

const (
	joinTimeout  = 30 * time.Second       // for the members of a store to form a cluster
	readyTimeout = 10 * time.Second       // for a server to become ready
	helloTimeout = 200 * time.Millisecond // for one attempt, because another kind of process may be using the port
	endTimeout   = 5 * time.Second        // for a shutdown
)

// errNoAnswer means that a server is running but does not answer.
var errNoAnswer = TimeoutError("no answer in time")

// ErrWontStart means that a server exited while it was starting.
var ErrWontStart = errors.New("redis-server ended")

// Identity identifies a server's process, as reported by the server.
type Identity struct {
	Process string // process_id: the PID in the server's PID namespace
	Run     string // run_id: different after each start
}

// Hello tries once to reach the server, and returns its identity if the server is ready.
func (s *Server) Hello(ctx context.Context) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	v, err := s.Ask(ctx, s.HostPort, "PING")
	if err != nil || v.Str != "PONG" {
		return Identity{}, errors.Join(errors.New("not ready"), err)
	}
	v, err = s.Ask(ctx, s.HostPort, "INFO", "server")
	return Identity{Process: infoField(v.Str, "process_id"), Run: infoField(v.Str, "run_id")}, err
}

// Ready waits until the server answers PING, and returns its identity. If the server exits first,
// for example because it can't read its data, the error is ErrWontStart.
func (s *Server) Ready(ctx context.Context, done <-chan struct{}) (id Identity, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errNoAnswer)
	defer cancel()
	err = s.AwaitReady(ctx, done, time.Millisecond, func(ctx context.Context) (err error) {
		id, err = s.Hello(ctx) // the server may not be listening yet, or may still be loading
		return err
	})
	return id, err
}

// AwaitReady is like Ready, but uses another check and another polling interval. Its time limit
// allows for a store to form a cluster.
func (s *Server) AwaitReady(ctx context.Context, done <-chan struct{}, interval time.Duration, hello func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinTimeout, errNoAnswer)
	defer cancel()
	for {
		select {
		case <-done:
			return fmt.Errorf("%w:\n%s", ErrWontStart, s.Log())
		case <-ctx.Done():
			err := context.Cause(ctx)
			if err == errNoAnswer {
				err = fmt.Errorf("%w\n%s", err, s.Log())
			}
			return err
		case <-time.After(interval):
		}
		if hello(ctx) == nil {
			return nil
		}
	}
}

// ConfirmRestart checks that the server has restarted. The read-back contains the number of keys.
func (s *Server) ConfirmRestart(ctx context.Context, oldID, newID Identity) (readBack string, err error) {
	if newID.Run == oldID.Run {
		return "", fmt.Errorf("restart %s: run_id is still %s", s.Name, oldID.Run)
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", s.Name, err)
	}
	return fmt.Sprintf("run_id %.8s was %.8s (keys: %d)", newID.Run, oldID.Run, keys), nil
}

// Shutdown shuts the server down cleanly and waits until it has exited. It first calls
// setEnding(true), and calls setEnding(false) if the server does not exit. status returns the
// server's exit error, or nil.
func (s *Server) Shutdown(ctx context.Context, done <-chan struct{}, setEnding func(bool), status func() error) error {
	setEnding(true)
	if err := s.shutDown(ctx, done); err != nil {
		setEnding(false)
		return err
	}
	if err := status(); err != nil {
		return fmt.Errorf("shut %s down: the server exited with %w:\n%s", s.Name, err, s.Log())
	}
	return nil
}

// shutDown sends SHUTDOWN and waits until the server has exited, with any status.
func (s *Server) shutDown(ctx context.Context, done <-chan struct{}) error {
	// A server that shuts down closes the connection without an answer.
	if v, err := s.Ask(ctx, s.HostPort, "SHUTDOWN"); err == nil {
		return fmt.Errorf("shut %s down: unexpected reply %q", s.Name, v.Str)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut %s down: %w", s.Name, context.Cause(ctx))
	case <-time.After(endTimeout):
		return fmt.Errorf("shut %s down: the server is still running after %v", s.Name, endTimeout)
	}
}

// Keys returns the number of keys on the server.
func (s *Server) Keys(ctx context.Context) (int64, error) {
	v, err := s.Ask(ctx, s.HostPort, "DBSIZE")
	return v.Int, err
}

// TouchKey is the key written by Touch. No lock uses it.
const TouchKey = "lockpick-touched"

// Touch writes TouchKey, bypassing links, and reads it back.
func (s *Server) Touch(ctx context.Context, value string) (readBack string, err error) {
	if _, err := s.do(ctx, "SET", TouchKey, value); err != nil {
		return "", err
	}
	got, err := s.do(ctx, "GET", TouchKey)
	if err != nil {
		return "", err
	}
	if got != value {
		return "", fmt.Errorf("touch %s: the key is %q, want %q", s.Name, got, value)
	}
	return fmt.Sprintf("the key %s is %s", TouchKey, value), nil
}

// do sends a command and returns the reply. It returns an error reply as an error.
func (s *Server) do(ctx context.Context, args ...string) (string, error) {
	v, err := s.Ask(ctx, s.HostPort, args...)
	if err == nil && v.Kind == '-' {
		err = errors.New(v.Str)
	}
	if err != nil {
		return "", fmt.Errorf("send %s %s: %w", s.Name, args[0], err)
	}
	return v.Str, nil
}

func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// persistenceArgs maps the persistence modes of a topology to arguments for redis-server.
var persistenceArgs = map[string][]string{
	"none":     {"--appendonly", "no"},
	"always":   {"--appendonly", "yes", "--appendfsync", "always"},
	"everysec": {"--appendonly", "yes", "--appendfsync", "everysec"},
	"no":       {"--appendonly", "yes", "--appendfsync", "no"},
}

// keyEventArgs makes a server report all changes to keys, for package keylife. Clients that read
// these reports too slowly are not disconnected.
var keyEventArgs = []string{"--notify-keyspace-events", "KA", "--client-output-buffer-limit", "pubsub 0 0 0"}

// RedisArgs returns the redis-server arguments for a persistence mode, without the address and the
// data directory. All real backends use them.
func RedisArgs(persist string) ([]string, error) {
	args, ok := persistenceArgs[persist]
	if !ok {
		return nil, fmt.Errorf("invalid persistence %q: want none, everysec, always or no", persist)
	}
	common := []string{"--databases", "1", "--save", "", "--repl-diskless-sync-delay", "0"} // the delay would wait for more replicas
	return slices.Concat(common, keyEventArgs, args), nil
}

// SentinelConfig returns the initial configuration of a sentinel that other servers reach at host.
// It must be in a file that the sentinel can write, in a directory where it can create files.
// SentinelArgs returns the corresponding arguments.
func SentinelConfig(host string) string { return "sentinel announce-ip " + host + "\n" }

// SentinelArgs returns arguments for redis-server to start a sentinel with the given configuration
// file. The caller appends the listening address.
func SentinelArgs(config string) []string { return []string{config, "--sentinel"} }

// Follow makes the server an asynchronous replica of the server at addr, and waits until it is in
// sync.
func (s *Server) Follow(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("make %s follow %s: %w", s.Name, addr, err)
	}
	ownHost, ownPort, err := net.SplitHostPort(s.HostPort)
	if err != nil {
		return fmt.Errorf("make %s follow %s: %w", s.Name, addr, err)
	}
	// Sentinels connect to a replica at the address that its master reports. Without these settings,
	// the master would report the address of the link.
	for _, command := range [][]string{
		{"CONFIG", "SET", "replica-announce-ip", ownHost},
		{"CONFIG", "SET", "replica-announce-port", ownPort},
		{"REPLICAOF", host, port},
	} {
		if _, err := s.do(ctx, command...); err != nil {
			return err
		}
	}
	for end := time.Now().Add(readyTimeout); ; {
		info, err := s.do(ctx, "INFO", "replication")
		if err != nil {
			return err
		}
		if infoField(info, "master_link_status") == "up" {
			return nil
		}
		if time.Now().After(end) {
			return TimeoutError(fmt.Sprintf("make %s follow %s: not in sync after %v\n%s", s.Name, addr, readyTimeout, s.Log()))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Promote turns a replica into an independent master with its current data. The read-back contains
// the server's process and number of keys.
func (s *Server) Promote(ctx context.Context) (readBack string, err error) {
	if _, err := s.do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return "", err
	}
	return s.ConfirmPromoted(ctx)
}

// ConfirmPromoted checks that a former replica is now a master, no matter who promoted it.
func (s *Server) ConfirmPromoted(ctx context.Context) (readBack string, err error) {
	info, err := s.do(ctx, "INFO")
	if err != nil {
		return "", err
	}
	if role := infoField(info, "role"); role != "master" {
		return "", fmt.Errorf("promote %s: its role is still %q", s.Name, role)
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return "", fmt.Errorf("promote %s: %w", s.Name, err)
	}
	return fmt.Sprintf("process %s, run_id %.8s (keys: %d)", infoField(info, "process_id"), infoField(info, "run_id"), keys), nil
}

// IsReplicaOf reports whether the server is a replica of the server at addr and in sync with it.
func (s *Server) IsReplicaOf(ctx context.Context, addr string) (bool, error) {
	info, err := s.do(ctx, "INFO", "replication")
	if err != nil {
		return false, err
	}
	master := net.JoinHostPort(infoField(info, "master_host"), infoField(info, "master_port"))
	return infoField(info, "role") == "slave" && master == addr && infoField(info, "master_link_status") == "up", nil
}

// Sentinel is a redis-server in sentinel mode (the same program as redis-sentinel).
type Sentinel struct{ *Server }

// SentinelSettings configures how sentinels monitor a master.
type SentinelSettings struct {
	Quorum          int           // number of sentinels that must agree that the master is down
	DownAfter       time.Duration // time without an answer before a sentinel considers the master down
	FailoverTimeout time.Duration // failover-timeout in sentinel.conf
}

// fastTimings speeds sentinels up, because a run lasts just a few seconds. By default, sentinels
// poll a server's role every ten seconds and discover each other after two. Sentinels wait one
// ping-period (a second by default) before they reconnect. If ping-period is close to or above
// down-after, they consider a master that they have just promoted dead, and promote the old, dead
// one again once it is back. Five ping-periods must last longer than the INFO request to a replica
// whose master is down, which has its own timeout of one second. After a stall of tilt-period, a
// sentinel distrusts its own clock and stays passive, by default for half a minute, which is as
// long as this package waits for it. Redis 7.0 added these settings for its own tests. Older
// sentinels use their default timings.
var fastTimings = []string{"INFO-PERIOD", "200", "PUBLISH-PERIOD", "200", "PING-PERIOD", "400", "TILT-PERIOD", "2000"}

// NewSentinel returns a Sentinel for a running server that does not monitor any master yet.
func NewSentinel(ctx context.Context, s *Server) (*Sentinel, error) {
	info, err := s.do(ctx, "INFO", "server")
	if err != nil {
		return nil, err
	}
	if mode := infoField(info, "redis_mode"); mode != "sentinel" {
		return nil, fmt.Errorf("start %s: server mode is %q, want \"sentinel\"", s.Name, mode)
	}
	s.Ask(ctx, s.HostPort, append([]string{"SENTINEL", "DEBUG"}, fastTimings...)...) // old versions lack this command
	return &Sentinel{s}, nil
}

// Watch makes the sentinel monitor the master at addr under the given name.
func (s *Sentinel) Watch(ctx context.Context, name, addr string, settings SentinelSettings) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("make %s watch %s: %w", s.Name, addr, err)
	}
	if _, err := s.do(ctx, "SENTINEL", "MONITOR", name, host, port, strconv.Itoa(settings.Quorum)); err != nil {
		return err
	}
	if _, err := s.do(ctx, "SENTINEL", "SET", name, "down-after-milliseconds", formatMillis(settings.DownAfter)); err != nil {
		return err
	}
	return s.SetFailoverTimeout(ctx, name, settings.FailoverTimeout)
}

// SetFailoverTimeout changes failover-timeout, even for a wait in progress.
func (s *Sentinel) SetFailoverTimeout(ctx context.Context, name string, d time.Duration) error {
	_, err := s.do(ctx, "SENTINEL", "SET", name, "failover-timeout", formatMillis(d))
	return err
}

func formatMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// AwaitPeers waits until the sentinel knows a healthy replica of the master and the given number of
// sentinels, including itself.
func (s *Sentinel) AwaitPeers(ctx context.Context, name string, sentinels int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errPeersMissing)
	defer cancel()
	for {
		quorum, err := s.do(ctx, "SENTINEL", "CKQUORUM", name)
		if err == nil && strings.HasPrefix(quorum, fmt.Sprintf("OK %d ", sentinels)) && s.hasReplica(ctx, name) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("make %s watch %s: %w; CKQUORUM returned %q", s.Name, name, context.Cause(ctx), quorum), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

var errPeersMissing = TimeoutError(fmt.Sprintf("the sentinel did not find the other sentinels or the replica within %v", readyTimeout))

// hasReplica reports whether the sentinel knows a replica that it could promote.
func (s *Sentinel) hasReplica(ctx context.Context, name string) bool {
	v, err := s.Ask(ctx, s.HostPort, "SENTINEL", "REPLICAS", name)
	if err != nil || len(v.Items) != 1 {
		return false
	}
	replica := parsePairs(v.Items[0])
	return replica["flags"] == "slave" && replica["role-reported"] == "slave" && replica["master-link-status"] == "ok"
}

// ConsidersDown reports whether the sentinel considers the master down.
func (s *Sentinel) ConsidersDown(ctx context.Context, name string) bool {
	v, err := s.Ask(ctx, s.HostPort, "SENTINEL", "MASTER", name)
	return err == nil && slices.Contains(strings.Split(parsePairs(v)["flags"], ","), "s_down")
}

// parsePairs converts a reply of alternating names and values to a map.
func parsePairs(v resp.Value) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(v.Items); i += 2 {
		m[v.Items[i].Str] = v.Items[i+1].Str
	}
	return m
}

// Master returns the address that the sentinel has for the master with the given name.
func (s *Sentinel) Master(ctx context.Context, name string) (addr string, err error) {
	v, err := s.Ask(ctx, s.HostPort, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
	if err != nil {
		return "", err
	}
	if len(v.Items) != 2 {
		return "", fmt.Errorf("ask %s for the master of %s: unknown to the sentinel", s.Name, name)
	}
	return net.JoinHostPort(v.Items[0].Str, v.Items[1].Str), nil
}
