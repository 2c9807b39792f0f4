//go:build linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// member combines a store with one of its members.
type member struct {
	Store
	StoreMember
}

// memberPollInterval is the polling interval for a starting member. It is not shorter, because an answer
// may cost all members a round of messages.
const memberPollInterval = 10 * time.Millisecond

// StartStore starts the members of a store on free loopback ports, and waits until they form a
// cluster.
func (g *Group) StartStore(ctx context.Context, store Store, names []string) (members []*Redis, err error) {
	bin, err := exec.LookPath(store.Program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w; to fix it: %s", store.Name, err, store.Remedy)
	}
	for range portTries {
		if members, err = g.newMembers(bin, store, names); err != nil {
			return nil, err
		}
		// Retry even for ErrWontStart: a member whose port is taken may say so anywhere in its output.
		err = startMembers(ctx, members)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errPortTaken) && !errors.Is(err, ErrWontStart) {
			return members, err
		}
		for _, r := range members {
			if r.child != nil {
				err = errors.Join(err, r.child.Kill())
			}
			err = errors.Join(err, os.RemoveAll(r.dir)) // may contain state from this attempt
		}
	}
	return nil, err
}

// newMembers prepares the members without starting them. Each member gets the addresses of all
// members.
func (g *Group) newMembers(bin string, store Store, names []string) (members []*Redis, err error) {
	addrs, err := freePorts(store.Ports * len(names))
	if err != nil {
		return nil, err
	}
	var configs []StoreMember
	for i, name := range names {
		ownAddrs := addrs[i*store.Ports:][:store.Ports]
		m := StoreMember{Name: name, Dir: g.DataDir(name), Addrs: ownAddrs}
		configs = append(configs, m)
		r := &Redis{bin: bin, group: g, dir: m.Dir, member: &member{store, m}}
		r.Server = Server{Name: name, HostPort: ownAddrs[0], Ask: Ask, Log: r.log}
		if err := os.Mkdir(r.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		members = append(members, r)
	}
	for i, r := range members {
		r.settings = store.Args(configs[i], configs)
	}
	return members, nil
}

// startMembers starts all members and waits until each has joined the cluster.
func startMembers(ctx context.Context, members []*Redis) error {
	var startJobs, joinJobs []func() error
	for _, r := range members {
		startJobs = append(startJobs, func() error { return r.start(ctx) })
		joinJobs = append(joinJobs, func() error {
			err := r.AwaitReady(ctx, r.child.Done(), memberPollInterval, func(ctx context.Context) error { return r.member.CheckJoined(ctx, r.member.StoreMember) })
			if err != nil {
				return fmt.Errorf("start %s at %s: %w", r.Name, r.HostPort, err)
			}
			return nil
		})
	}
	if errs := Parallel(startJobs...); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(Parallel(joinJobs...)...)
}

// Redis is one redis-server, or one member of a store used in its place. Its port and directory
// stay the same across restarts.
type Redis struct {
	Server
	bin, dir  string
	settings  []string
	group     *Group
	member    *member               // nil for a redis-server
	lastChild atomic.Pointer[Child] // nil before the first start

	mu       sync.Mutex
	child    *Child // nil after a kill or shutdown
	stopped  bool
	identity Identity
}

const portTries = 5 // attempts to find a port that no other process takes

// StartRedis starts the program bin on a free loopback port and waits until it answers.
func (g *Group) StartRedis(ctx context.Context, name, bin, persist string) (*Redis, error) {
	args, err := RedisArgs(persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	r, err := g.newRedis(name, bin, args)
	if err != nil {
		return nil, err
	}
	return r, r.begin(ctx)
}

// StartSentinel starts the program bin as a sentinel that does not monitor any master yet.
func (g *Group) StartSentinel(ctx context.Context, name, bin string) (*Sentinel, error) {
	config := filepath.Join(g.DataDir(name), "sentinel.conf")
	r, err := g.newRedis(name, bin, SentinelArgs(config))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, []byte(SentinelConfig(loopback)), 0o644); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	return NewSentinel(ctx, &r.Server)
}

const loopback = "127.0.0.1"

func (g *Group) newRedis(name, bin string, settings []string) (*Redis, error) {
	r := &Redis{bin: bin, settings: settings, group: g, dir: g.DataDir(name)}
	r.Server = Server{Name: name, Ask: Ask, Log: r.log}
	if err := os.Mkdir(r.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // a disk may already be mounted on the directory
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return r, nil
}

// begin starts the server for the first time, on a free port.
func (r *Redis) begin(ctx context.Context) (err error) {
	for range portTries {
		if r.HostPort, err = freePort(); err != nil {
			return fmt.Errorf("start %s: %w", r.Name, err)
		}
		if err = r.start(ctx); err == nil || ctx.Err() != nil || !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// Running reports whether the server's process exists.
func (r *Redis) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running()
}

// Ended reports whether the server's process no longer exists.
func (r *Redis) Ended() bool { return !r.Running() }

// Kill sends SIGKILL to the server.
func (r *Redis) Kill(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running() {
		return "", fmt.Errorf("kill %s: it is not running", r.Name)
	}
	pid := r.child.PID()
	if err := r.child.Kill(); err != nil {
		return "", err
	}
	r.child = nil
	return fmt.Sprintf("process %d has ended", pid), nil
}

// Restart starts the server after its exit, with the remaining data on its disk. The read-back
// contains the new process and the number of keys. If the server exits immediately, for example
// because it can't read its data, the error is ErrWontStart.
func (r *Redis) Restart(ctx context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running() {
		return "", fmt.Errorf("restart %s: it is running", r.Name)
	}
	oldIdentity := r.identity
	if err := r.start(ctx); err != nil {
		return "", err
	}
	if r.member != nil {
		return fmt.Sprintf("process %d answers", r.child.PID()), nil
	}
	keys, err := r.ConfirmRestart(ctx, oldIdentity, r.identity)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d, %s", r.child.PID(), keys), nil
}

// errPortTaken means that another process uses the port.
var errPortTaken = errors.New("the port is taken by another process")

func (r *Redis) start(ctx context.Context) error {
	cmd := exec.Command(r.bin, r.args()...)
	// The server must not start in its data directory: a child between fork and exec that waits for
	// one of our file systems blocks our garbage collector, and thus the file system itself.
	cmd.Dir = r.group.Dir
	child, err := r.group.Start(r.Name, cmd)
	if err != nil {
		return err
	}
	r.lastChild.Store(child)
	if err := r.awaitReady(ctx, child); err != nil {
		// A server that can't start exits with an error status. A redis-server that exits successfully
		// was shut down from outside, which it logs; otherwise, the program is not a server at all.
		if shutdownRequested := strings.Contains(child.StderrTail(), "shutdown"); errors.Is(err, ErrWontStart) && child.Err() == nil && (shutdownRequested || r.member != nil) {
			child.ExpectToRun()
		}
		return errors.Join(fmt.Errorf("start %s at %s: %w", r.Name, r.HostPort, err), child.Kill())
	}
	child.ExpectToRun()
	r.child, r.stopped = child, false
	return nil
}

func (r *Redis) args() []string {
	if r.member != nil {
		return r.settings
	}
	host, port, _ := net.SplitHostPort(r.HostPort) // can't fail, because the address is from freePort
	listenArgs := []string{"--bind", host, "--port", port, "--dir", r.dir, "--daemonize", "no"}
	return append(slices.Clone(r.settings), listenArgs...)
}

// awaitReady waits until the child answers PING. The port was free a moment ago, but may belong to
// another process by now.
func (r *Redis) awaitReady(ctx context.Context, child *Child) error {
	var id Identity
	var err error
	if r.member != nil {
		err = r.AwaitReady(ctx, child.Done(), memberPollInterval, r.Ping)
	} else {
		id, err = r.Ready(ctx, child.Done())
	}
	switch {
	case errors.Is(err, ErrWontStart) && strings.Contains(strings.ToLower(err.Error()), "address already in use"):
		return errPortTaken
	case err != nil:
		return err
	case r.member == nil && id.Process != fmt.Sprint(child.PID()):
		return errPortTaken
	}
	r.identity = id
	return nil
}

// Ping sends PING to the server, bypassing links.
func (r *Redis) Ping(ctx context.Context) error {
	if r.member != nil {
		return r.member.CheckAlive(ctx, r.member.StoreMember)
	}
	_, err := Ask(ctx, r.Addr(), "PING")
	return err
}

// log returns the output of the server's latest process.
func (r *Redis) log() string {
	if c := r.lastChild.Load(); c != nil {
		return c.StderrTail()
	}
	return ""
}

func freePort() (addr string, err error) {
	addrs, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// freePorts returns n different addresses with unused ports.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		l, listenErr := net.Listen("tcp", loopback+":0")
		if listenErr != nil {
			return nil, fmt.Errorf("find a free port: %w", listenErr)
		}
		defer func() { err = errors.Join(err, l.Close()) }() // reserve each port until all are found
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// running is like Running, but the caller holds the lock.
func (r *Redis) running() bool {
	if r.child == nil {
		return false
	}
	select {
	case <-r.child.Done():
		return false
	default:
		return true
	}
}

// Pause stops the server with SIGSTOP. The kernel buffers the data that arrives in the meantime.
func (r *Redis) Pause(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.running():
		return "", fmt.Errorf("stop %s: it is not running", r.Name)
	case r.stopped:
		return "", fmt.Errorf("stop %s: it is already stopped", r.Name)
	}
	if readBack, err = r.child.Stop(); err == nil {
		r.stopped = true
	}
	return readBack, err
}

// Resume continues the server. It does nothing if the process was killed while it was paused.
func (r *Redis) Resume(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped || !r.running() {
		return "it was killed meanwhile", nil
	}
	r.stopped = false
	return r.child.Continue()
}

// WhyUnresponsive returns why the server can't answer although it is running, or "".
func (r *Redis) WhyUnresponsive() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped && r.running() {
		return "it is paused"
	}
	return ""
}

// MayBeUnresponsive reports whether the server may be unable to answer because it is stopped, has
// exited, or is being started or stopped.
func (r *Redis) MayBeUnresponsive() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	return r.stopped || !r.running()
}

// Shutdown shuts the server down cleanly and waits until it has exited.
func (r *Redis) Shutdown(ctx context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.running():
		return "", fmt.Errorf("shut %s down: it is not running", r.Name)
	case r.stopped:
		return "", fmt.Errorf("shut %s down: it is stopped and can't receive the request", r.Name)
	}
	if err := r.Server.Shutdown(ctx, r.child.Done(), r.child.setEndRequested, r.child.Err); err != nil {
		return "", err
	}
	pid := r.child.PID()
	r.child = nil
	return fmt.Sprintf("process %d shut down cleanly", pid), nil
}
