// Package server asks redis-servers what they are, and tells them what to be,
// wherever they run.
//
// Its nouns are Server, which is known by its name, its address and a function that
// asks it; and Sentinel, a server that watches others. What holds for one server of a
// real backend holds for all: what it is started with, when it is ready, whom it
// follows, and how each is read back.
//
// Deliberately missing: how servers are started, stopped and ended, which is the
// backend's (package proc for processes), and when one takes over from another
// (package failover).
package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/resp"
)

// Ask sends one command to the server at addr, on a connection of its own, and returns
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
var errSilent = late("no answer in time")

// late is the error of a wait that took too long.
type late string

func (l late) Error() string { return string(l) }

// Timeout is as of package net's errors.
func (late) Timeout() bool { return true }

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

// End asks it to end in good order, and returns once it has ended, however.
func (s *Server) End(ctx context.Context, ended <-chan struct{}) error {
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

// tells lets a server tell of all that is done to keys, as package life reads it, and never
// lets go of who is slow to read that.
var tells = []string{"--notify-keyspace-events", "KA", "--client-output-buffer-limit", "pubsub 0 0 0"}

// Args are redis-server's arguments on any real backend, beyond where it listens and
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
