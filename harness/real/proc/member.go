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

// member is what a process is that runs no redis-server.
type member struct {
	Store
	StoreMember
}

// memberEvery is how often a member is asked that begins: an answer may cost all of them a round.
const memberEvery = 10 * time.Millisecond

// StartStore starts the members of a store on free loopback ports, and returns once they are one.
func (g *Group) StartStore(ctx context.Context, of Store, names []string) (all []*Redis, err error) {
	bin, err := exec.LookPath(of.Program)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w; to fix it: %s", of.Name, err, of.Remedy)
	}
	for range portTries {
		if all, err = g.members(bin, of, names); err != nil {
			return nil, err
		}
		// A port may have been taken, which a member that ends need not say last.
		err = join(ctx, all)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errNotOurs) && !errors.Is(err, ErrWontStart) {
			return all, err
		}
		for _, r := range all {
			if r.child != nil {
				err = errors.Join(err, r.child.Kill())
			}
			err = errors.Join(err, os.RemoveAll(r.dir)) // it may have begun with the others
		}
	}
	return nil, err
}

// members prepares them; each knows the addresses of all.
func (g *Group) members(bin string, of Store, names []string) (all []*Redis, err error) {
	addrs, err := freePorts(of.Ports * len(names))
	if err != nil {
		return nil, err
	}
	var know []StoreMember
	for i, name := range names {
		own := addrs[i*of.Ports:][:of.Ports]
		m := StoreMember{Name: name, Dir: g.DataDir(name), Addrs: own}
		know = append(know, m)
		r := &Redis{bin: bin, group: g, dir: m.Dir, member: &member{of, m}}
		r.Server = Server{Name: name, At: own[0], Ask: Ask, Log: r.log}
		if err := os.Mkdir(r.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		all = append(all, r)
	}
	for i, r := range all {
		r.settings = of.Args(know[i], know)
	}
	return all, nil
}

// join starts them all, and waits until each has joined the others.
func join(ctx context.Context, all []*Redis) error {
	var start, meet []func() error
	for _, r := range all {
		start = append(start, func() error { return r.start(ctx) })
		meet = append(meet, func() error {
			err := r.Await(ctx, r.child.Done(), memberEvery, func(ctx context.Context) error { return r.member.Joined(ctx, r.member.StoreMember) })
			if err != nil {
				return fmt.Errorf("start %s at %s: %w", r.Name, r.At, err)
			}
			return nil
		})
	}
	if failed := AtOnce(start...); len(failed) > 0 {
		return errors.Join(failed...)
	}
	return errors.Join(AtOnce(meet...)...)
}

// Redis is one redis-server, or one member of a store that stands in its place. It keeps its
// port and its directory when it is killed and started again.
type Redis struct {
	Server
	bin, dir string
	settings []string
	group    *Group
	member   *member               // nil: it is a redis-server
	last     atomic.Pointer[Child] // nil: it has not been started yet

	mu      sync.Mutex
	child   *Child // nil: it was killed or shut down
	stopped bool
	is      Identity
}

const portTries = 5 // free ports that turned out to be taken

// StartRedis starts the program bin on a free loopback port and returns once it answers.
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

// StartSentinel starts the program bin as a sentinel that watches nobody yet.
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
	if err := os.Mkdir(r.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // a disk may be mounted there
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return r, nil
}

// begin starts it for the first time, on a port that is free.
func (r *Redis) begin(ctx context.Context) (err error) {
	for range portTries {
		if r.At, err = freePort(); err != nil {
			return fmt.Errorf("start %s: %w", r.Name, err)
		}
		if err = r.start(ctx); err == nil || ctx.Err() != nil || !errors.Is(err, errNotOurs) {
			return err
		}
	}
	return err
}

// Runs says whether its process is there.
func (r *Redis) Runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs()
}

// Ended says whether it is not there any more.
func (r *Redis) Ended() bool { return !r.Runs() }

// Kill ends it without warning.
func (r *Redis) Kill(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.runs() {
		return "", fmt.Errorf("kill %s: it does not run", r.Name)
	}
	pid := r.child.PID()
	if err := r.child.Kill(); err != nil {
		return "", err
	}
	r.child = nil
	return fmt.Sprintf("process %d has ended", pid), nil
}

// Restart starts it again when it has ended, with what its disk kept, and says which
// process answers now and how many keys it has. One that ends again at once, as with a
// disk that it can't read, is ErrWontStart.
func (r *Redis) Restart(ctx context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs() {
		return "", fmt.Errorf("restart %s: it runs", r.Name)
	}
	before := r.is
	if err := r.start(ctx); err != nil {
		return "", err
	}
	if r.member != nil {
		return fmt.Sprintf("process %d answers", r.child.PID()), nil
	}
	keys, err := r.Again(ctx, before, r.is)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d, %s", r.child.PID(), keys), nil
}

// errNotOurs says that the port belongs to another process.
var errNotOurs = errors.New("the port is taken by another process")

func (r *Redis) start(ctx context.Context) error {
	cmd := exec.Command(r.bin, r.args()...)
	// Not in its data directory: a child between fork and exec that waits for a file system
	// of ours keeps our garbage collector waiting, and so the file system.
	cmd.Dir = r.group.Dir
	child, err := r.group.Start(r.Name, cmd)
	if err != nil {
		return err
	}
	r.last.Store(child)
	if err := r.ready(ctx, child); err != nil {
		// A server that can't start says so by its status. One that ends well was asked to by somebody, and
		// says that, or it is no server.
		if asked := strings.Contains(child.Words(), "shutdown"); errors.Is(err, ErrWontStart) && child.Err() == nil && (asked || r.member != nil) {
			child.Stays()
		}
		return errors.Join(fmt.Errorf("start %s at %s: %w", r.Name, r.At, err), child.Kill())
	}
	child.Stays()
	r.child, r.stopped = child, false
	return nil
}

func (r *Redis) args() []string {
	if r.member != nil {
		return r.settings
	}
	host, port, _ := net.SplitHostPort(r.At) // from freePort
	listen := []string{"--bind", host, "--port", port, "--dir", r.dir, "--daemonize", "no"}
	return append(slices.Clone(r.settings), listen...)
}

// ready waits until PING is answered, and by this very process: a port that was
// free a moment ago may belong to somebody else now.
func (r *Redis) ready(ctx context.Context, child *Child) error {
	var is Identity
	var err error
	if r.member != nil {
		err = r.Await(ctx, child.Done(), memberEvery, r.Answers)
	} else {
		is, err = r.Ready(ctx, child.Done())
	}
	switch {
	case errors.Is(err, ErrWontStart) && strings.Contains(strings.ToLower(err.Error()), "address already in use"):
		return errNotOurs
	case err != nil:
		return err
	case r.member == nil && is.Process != fmt.Sprint(child.PID()):
		return errNotOurs
	}
	r.is = is
	return nil
}

// Answers asks it, past the links, whether it is there.
func (r *Redis) Answers(ctx context.Context) error {
	if r.member != nil {
		return r.member.Alive(ctx, r.member.StoreMember)
	}
	_, err := Ask(ctx, r.Addr(), "PING")
	return err
}

// log is what its last process has written.
func (r *Redis) log() string {
	if c := r.last.Load(); c != nil {
		return c.Words()
	}
	return ""
}

func freePort() (addr string, err error) {
	all, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return all[0], nil
}

// freePorts are addresses that nobody listens on, each another.
func freePorts(n int) (addrs []string, err error) {
	for range n {
		l, fails := net.Listen("tcp", loopback+":0")
		if fails != nil {
			return nil, fmt.Errorf("find a free port: %w", fails)
		}
		defer func() { err = errors.Join(err, l.Close()) }() // all of them are held until all are found
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// runs says whether its process is there. The lock is held.
func (r *Redis) runs() bool {
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

// Pause stops it, as SIGSTOP does: what comes meanwhile the kernel keeps for it.
func (r *Redis) Pause(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.runs():
		return "", fmt.Errorf("stop %s: it does not run", r.Name)
	case r.stopped:
		return "", fmt.Errorf("stop %s: it is stopped already", r.Name)
	}
	if readBack, err = r.child.Stop(); err == nil {
		r.stopped = true
	}
	return readBack, err
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
func (r *Redis) Resume(context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped || !r.runs() {
		return "it was killed meanwhile", nil
	}
	r.stopped = false
	return r.child.Continue()
}

// Mute says why it runs and can't answer; "": it can.
func (r *Redis) Mute() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped && r.runs() {
		return "it is paused"
	}
	return ""
}

// Silent says whether it need not answer: it is stopped, has ended, or is just being changed.
func (r *Redis) Silent() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	return r.stopped || !r.runs()
}

// Shutdown asks it to end in good order, and waits until it has.
func (r *Redis) Shutdown(ctx context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.runs():
		return "", fmt.Errorf("shut %s down: it does not run", r.Name)
	case r.stopped:
		return "", fmt.Errorf("shut %s down: it is stopped, and hears nothing", r.Name)
	}
	if err := r.Server.Shutdown(ctx, r.child.Done(), r.child.mayEnd, r.child.Err); err != nil {
		return "", err
	}
	pid := r.child.PID()
	r.child = nil
	return fmt.Sprintf("process %d ended in good order", pid), nil
}
