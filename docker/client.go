//go:build linux

package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/lock/exec"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/internal/files"
)

// makeClient starts a client's process, which then waits for its order. If possible, it reuses the
// client's container from an earlier run, because starting a container takes tenths of a second and
// clients should start without delay.
func (s *testbed) makeClient(ctx context.Context, name string, clock *real.Clock) (*container, error) {
	s.mu.Lock()
	cont, host := s.clientContainers[name], s.clientHosts[name]
	s.mu.Unlock()
	if cont != nil && cont.hasChangingClocks != (clock != nil) {
		if err := cont.remove(ctx); err != nil {
			return nil, err
		}
		cont = nil
	}
	switch {
	case cont == nil:
	case !cont.Running():
	case clock == nil && !cont.Paused():
		return cont, nil
	default:
		if _, err := cont.Kill(ctx); err != nil && !errors.Is(err, proc.ErrEnded) {
			return nil, err
		}
	}
	if cont == nil {
		makeContainer, m := s.makeContainer, engine.ContainerSpec{Command: s.agentCommand(append([]string{loopAgent}, s.clientCommand...)...), Attached: true}
		switch {
		case len(s.cfg.Adapter) > 0:
			makeContainer = s.makeAdapterContainer
		case clock != nil:
			makeContainer, m.Command = s.makeGatedContainer, s.clientCommand
		}
		created, err := makeContainer(ctx, name, host, m)
		if err != nil {
			return nil, err
		}
		cont, created.hasChangingClocks = created, clock != nil
		s.mu.Lock()
		s.clientContainers[name] = cont
		s.mu.Unlock()
	}
	if err := cont.startAttached(ctx); err != nil {
		return nil, err
	}
	return cont, s.openGate(ctx, cont, clock)
}

// killLeftovers kills and reaps the processes that a client left running in its container.
func killLeftovers() {
	if os.Getpid() != 1 { // not in a container, where -1 would mean all processes on the machine
		return
	}
	syscall.Kill(-1, syscall.SIGKILL)
	for {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && err != syscall.EINTR {
			return // ECHILD: no processes are left
		}
	}
}

// checkAdapterImage checks that the engine has the adapter's image, if clients use an adapter.
func (s imageSource) checkAdapterImage(ctx context.Context) error {
	if len(s.cfg.Adapter) == 0 {
		return nil
	}
	has, err := s.engine.HasImage(ctx, s.cfg.AdapterImage)
	switch {
	case err != nil:
		return fmt.Errorf("look for image %s: %w", s.cfg.AdapterImage, err)
	case !has:
		return &MissingError{fmt.Errorf("the engine has no image %s for the adapter", s.cfg.AdapterImage), "build or pull it with docker, or name another image"}
	}
	return nil
}

// makeAdapterContainer creates a client's container from the adapter's image. Faults on the container
// affect both the client and the adapter, which the client starts.
func (s *testbed) makeAdapterContainer(ctx context.Context, name string, host int, m engine.ContainerSpec) (*container, error) {
	files, gate := s.ownImage.standaloneFiles(gateDir)
	m.Image, m.Command = s.cfg.AdapterImage, slices.Concat(gate, []string{AgentVerb, loopAgent}, gate, s.clientCommand[1:], s.cfg.Adapter)
	b, err := s.makeContainer(ctx, name, host, m)
	if err != nil {
		return nil, err
	}
	if err := s.engine.Put(ctx, b.id, files); err != nil {
		return nil, fmt.Errorf("put lockpick into the container of %s: %w", name, err)
	}
	return b, nil
}

// Hello briefly starts the adapter in a container without a network and returns the first line of its
// output.
func (b *backend) Hello(ctx context.Context) (line string, err error) {
	e, _, err := engine.Open(ctx)
	if err != nil {
		return "", err
	}
	defer e.Close()
	self, err := files.CurrentOwner()
	if err != nil {
		return "", err
	}
	labels := map[string]string{engine.OwnerLabel: self.String()}
	if err := (imageSource{cfg: b.cfg, engine: e}).checkAdapterImage(ctx); err != nil {
		return "", err
	}
	name := fmt.Sprintf("lockpick-%s-hello", self)
	id, err := e.Create(ctx, engine.ContainerSpec{Name: name, Image: b.cfg.AdapterImage, Network: "none", Command: b.cfg.Adapter, Labels: labels, Attached: true})
	if err != nil {
		return "", fmt.Errorf("create a container of %s: %w", b.cfg.AdapterImage, err)
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), id)) }()
	cont := &container{engine: e, name: "the adapter", id: id}
	defer cont.detach()
	if err := cont.startAttached(ctx); err != nil {
		return "", err
	}
	timer := time.AfterFunc(exec.StartWithin, func() { cont.stdio.out.CloseWithError(fmt.Errorf("no hello within %v", exec.StartWithin)) })
	defer timer.Stop()
	line, err = bufio.NewReader(io.LimitReader(cont.stdio.out, 64<<10)).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s in a container of %s: %w\n%s", strings.Join(b.cfg.Adapter, " "), b.cfg.AdapterImage, err, cont.StderrTail())
	}
	return line, nil
}

// stderrWait is how long to wait for the adapter's last output on stderr, which may arrive after the
// client's report.
const stderrWait = time.Second

// RunClient is like real.Run.RunClient, but if the client's adapter fails, the error includes the
// adapter's last output.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, onPoint func(point string)) error {
	err := c.Run.RunClient(ctx, s, onPoint)
	if !errors.Is(err, lock.ErrBroken) {
		return err
	}
	c.testbed.mu.Lock()
	b := c.testbed.clientContainers[s.Name]
	c.testbed.mu.Unlock()
	for end := time.Now().Add(stderrWait); b.StderrTail() == "" && time.Now().Before(end); {
		time.Sleep(stderrWait / 100)
	}
	return fmt.Errorf("%w\nlast output on stderr in its container:\n%s", err, b.StderrTail())
}
