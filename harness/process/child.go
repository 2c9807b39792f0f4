//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/real/contender"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/skew"
)

// child is the harness's end of one client subprocess.
type child struct {
	*proc.Child
	name   string
	in     *os.File // its stdin
	out    *os.File // its stdout
	log    string   // file with its stderr
	killed atomic.Bool
	paused atomic.Bool
	clocks chan skew.Reading // what it says that its clocks show
}

// RunClient runs a client in a subprocess until it has ended. Its error is
// harness.ErrKilled if Kill ended it.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	a, ok := c.Addrs[s.Name]
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.Start = a.Nodes, a.Resource, c.Now()
	k := c.clocks.Of(s.Name)
	started := k.Starts()
	defer started()
	ch, err := c.startChild(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	defer ch.in.Close()
	defer ch.out.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { ch.Kill() })() // its error would come again when the run ends
	err = contender.Conversation{In: ch.in, Out: ch.out, Record: c.rec.Record, At: at, Clocks: ch.clocks, Began: func(r skew.Reading) error {
		defer started()
		return k.Began(r)
	}}.Hold(contender.Order{Spec: s, Origin: c.Origin(), Clocks: k != nil})
	if err != nil {
		ch.Kill()
	}
	end := ch.Err()
	c.mu.Lock()
	delete(c.clients, s.Name)
	c.ended[s.Name] = true
	c.mu.Unlock()
	return ch.outcome(ctx, err, end)
}

// startChild starts the subprocess.
func (c *cluster) startChild(name string) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[name] != nil {
		return nil, errors.New("it runs already")
	}
	ch := &child{name: name, clocks: make(chan skew.Reading, 1), log: filepath.Join(c.group.Dir, name+".log")}
	log, err := os.Create(ch.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Own pipes: those of exec.Cmd are closed when it is reaped, read or not.
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer stdout.Close()
	cmd := exec.Command(c.self[0], c.self[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	if ch.Child, err = c.group.Start(name, cmd); err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	ch.in, ch.out = in, out
	c.clients[name] = ch
	return ch, nil
}

// outcome says how the client came to its end.
func (ch *child) outcome(ctx context.Context, said, end error) error {
	switch {
	case said == nil && end == nil:
		return nil
	case ch.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return fmt.Errorf("run client %s: %w", ch.name, context.Cause(ctx))
	case ch.Struck(): // which is recorded
		return harness.ErrKilled
	case said != nil:
		return fmt.Errorf("run client %s: %w", ch.name, said)
	}
	log, _ := os.ReadFile(ch.log) // no log, no words
	return fmt.Errorf("run client %s: %w: %s", ch.name, end, strings.TrimSpace(string(log[max(0, len(log)-1000):])))
}
