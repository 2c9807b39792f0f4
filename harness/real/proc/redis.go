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
	"strings"
	"sync"
	"time"
)

// Redis is one redis-server. It keeps its port and its directory when it is
// killed and started again.
type Redis struct {
	name, bin string
	dir, log  string
	port      string
	settings  []string
	sentinel  string // its configuration, if it is a sentinel
	group     *Group

	mu         sync.Mutex
	child      *Child // nil: it was killed or shut down
	stopped    bool
	generation string // its run_id
}

// persistence lists redis's arguments for each mode of a scenario's topology.
var persistence = map[string][]string{
	"none":     {"--appendonly", "no"},
	"always":   {"--appendonly", "yes", "--appendfsync", "always"},
	"everysec": {"--appendonly", "yes", "--appendfsync", "everysec"},
	"no":       {"--appendonly", "yes", "--appendfsync", "no"},
}

const (
	readyBound = 10 * time.Second       // how long a server may take to answer
	helloBound = 200 * time.Millisecond // how long one try waits: whoever has the port may be no server
	portTries  = 5                      // free ports that turned out to be taken
)

// ServerArgs are redis-server's arguments on any real backend, beyond where it
// listens and where its data are, for a mode of persistence.
func ServerArgs(persist string) ([]string, error) {
	args, ok := persistence[persist]
	if !ok {
		return nil, fmt.Errorf("persistence %q is none of none, everysec, always, no", persist)
	}
	common := []string{"--databases", "1", "--save", "", "--repl-diskless-sync-delay", "0"} // a replica need not wait for others
	return append(common, args...), nil
}

// StartRedis starts the program bin on a free loopback port and returns once it answers.
func (g *Group) StartRedis(ctx context.Context, name, bin, persist string) (*Redis, error) {
	args, err := ServerArgs(persist)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	r := &Redis{name: name, bin: bin, settings: args, group: g, dir: g.DataDir(name), log: filepath.Join(g.Dir, name+".log")}
	if err := os.Mkdir(r.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // a disk may be mounted there
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return r, r.begin(ctx)
}

// begin starts it for the first time, on a port that is free.
func (r *Redis) begin(ctx context.Context) (err error) {
	for range portTries {
		if r.port, err = freePort(); err != nil {
			return fmt.Errorf("start %s: %w", r.name, err)
		}
		if err = r.start(ctx); err == nil || ctx.Err() != nil || !errors.Is(err, errNotOurs) {
			return err
		}
	}
	return err
}

// Addr is its host:port.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", r.port) }

// Runs says whether its process is there.
func (r *Redis) Runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs()
}

// Kill ends it without warning.
func (r *Redis) Kill() (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.runs() {
		return "", fmt.Errorf("kill %s: it does not run", r.name)
	}
	pid := r.child.PID()
	if err := r.child.Kill(); err != nil {
		return "", err
	}
	r.child = nil
	return fmt.Sprintf("process %d is gone", pid), nil
}

// Restart starts it again when it has ended, with what its disk kept, and says which
// process answers now and how many keys it has. One that ends again at once, as with a
// disk that it can't read, is ErrWontStart.
func (r *Redis) Restart(ctx context.Context) (readBack string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs() {
		return "", fmt.Errorf("restart %s: it runs", r.name)
	}
	before := r.generation
	if err := r.start(ctx); err != nil {
		return "", err
	}
	if r.generation == before {
		return "", fmt.Errorf("restart %s: run_id is still %s", r.name, before)
	}
	keys, err := Ask(ctx, r.Addr(), "DBSIZE")
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", r.name, err)
	}
	return fmt.Sprintf("process %d, run_id %s was %s, %d keys", r.child.PID(), r.generation[:8], before[:8], keys.Int), nil
}

// errSilent says that a server runs and does not answer.
var errSilent = fmt.Errorf("no answer to PING in %v", readyBound)

// ErrWontStart says that a server ends when it is started.
var ErrWontStart = errors.New("redis-server ended")

// errNotOurs says that the port belongs to another process.
var errNotOurs = errors.New("the port is taken by another process")

func (r *Redis) start(ctx context.Context) error {
	log, err := os.Create(r.log)
	if err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	defer log.Close()
	cmd := exec.Command(r.bin, r.args()...)
	// Not in its data directory: a child between fork and exec that waits for a file system
	// of ours keeps our garbage collector waiting, and so the file system.
	cmd.Dir = r.group.Dir
	cmd.Stdout, cmd.Stderr = log, log
	child, err := r.group.Start(r.name, cmd)
	if err != nil {
		return err
	}
	if err := r.ready(ctx, child); err != nil {
		return errors.Join(fmt.Errorf("start %s on port %s: %w", r.name, r.port, err), child.Kill())
	}
	r.child, r.stopped = child, false
	return nil
}

func (r *Redis) args() []string {
	args := []string{"--bind", "127.0.0.1", "--port", r.port, "--dir", r.dir, "--daemonize", "no"}
	if r.sentinel != "" {
		return append([]string{r.sentinel, "--sentinel"}, args...)
	}
	return append(args, r.settings...)
}

// ready waits until PING is answered, and by this very process: a port that was
// free a moment ago may belong to somebody else now.
func (r *Redis) ready(ctx context.Context, child *Child) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyBound, errSilent)
	defer cancel()
	for {
		select {
		case <-child.Done():
			return r.ended()
		case <-ctx.Done():
			if context.Cause(ctx) == errSilent {
				return fmt.Errorf("%w\n%s", errSilent, tail(r.log))
			}
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
		id, err := Hello(ctx, r.Addr())
		if err != nil {
			continue // not listening yet, or loading
		}
		if id.Process != fmt.Sprint(child.PID()) {
			return errNotOurs
		}
		r.generation = id.Run
		return nil
	}
}

// Identity is who a server says that it is.
type Identity struct {
	Process string // process_id, in its own PID namespace
	Run     string // run_id, another at each start
}

// Hello asks once whether a server is ready, and who it is.
func Hello(ctx context.Context, addr string) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, helloBound)
	defer cancel()
	v, err := Ask(ctx, addr, "PING")
	if err != nil || v.Str != "PONG" {
		return Identity{}, errors.Join(errors.New("not ready"), err)
	}
	v, err = Ask(ctx, addr, "INFO", "server")
	return Identity{Process: field(v.Str, "process_id"), Run: field(v.Str, "run_id")}, err
}

func (r *Redis) ended() error {
	text := tail(r.log)
	if strings.Contains(text, "Address already in use") {
		return errNotOurs
	}
	return fmt.Errorf("%w:\n%s", ErrWontStart, text)
}

// field is one line of INFO.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// tail is the end of a log.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-1000):]))
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
