//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"lockpick/docker/engine"
	"lockpick/harness/real"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// turner turns the clocks of a box, which start right with the run, by an agent that ends
// and starts with its program: in this process, or in a box beside that one.
type turner struct {
	*real.RemoteClock
	base *base
}

// lacksClocks says why no clock of a container can be turned on an engine of an
// architecture; "": it can.
func lacksClocks(arch string) (reason, remedy string) {
	remedy = "use an engine on amd64, or the simulation (--backend sim)"
	if err := vdso.Available(); err != nil {
		return "no process can be given a wrong clock: " + err.Error(), remedy
	}
	if arch != "amd64" {
		return "it rewrites machine code of amd64, and the engine's machine is " + arch, remedy
	}
	return "", ""
}

// makeTurnable makes a container whose program waits at a gate.
func (s *base) makeTurnable(ctx context.Context, name string, host int, m engine.Making) (*box, error) {
	files, gate := map[string][]byte(nil), []string{s.client[0]}
	if m.Image != s.image {
		files, gate = s.own.apart(gateDir)
	}
	m.Command = slices.Concat(gate, []string{vdso.GateVerb}, m.Command)
	b, err := s.makeBox(ctx, name, host, m)
	if err != nil {
		return nil, err
	}
	if files != nil && !s.software.gated {
		if err := s.engine.Put(ctx, b.id, files); err != nil {
			return nil, fmt.Errorf("put a gate into the container of %s: %w", name, err)
		}
	}
	return b, nil
}

// open lets the program of a box through the gate that it was started through: by the
// process, where that can be traced from here, or else from beside.
func (k *turner) open(ctx context.Context, b *box) error {
	if k == nil {
		return nil
	}
	err := fs.ErrPermission
	if pid := b.traceable(); pid > 0 {
		err = k.Start(real.LocalClockAgent(b.Done()), pid)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = k.openBeside(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("start %s by clocks that can be turned: %w", b.name, err)
	}
	return nil
}

// traceable is the process of a box, if it is seen from here and its true clock is ours;
// 0: it is not.
func (b *box) traceable() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ours, _ := os.Readlink("/proc/self/ns/time") // before Linux 5.6 there is one
	theirs, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/time", b.run.process))
	if ours != theirs {
		return 0
	}
	return b.run.process
}

// openBeside opens the gate by an agent in a box beside.
func (k *turner) openBeside(ctx context.Context, b *box) (err error) {
	if b.beside == nil {
		b.beside, err = k.base.makeBox(ctx, b.name+"-clock", 0, engine.Making{
			Image: k.base.image, Command: []string{k.base.client[0], clockVerb}, Talks: true, Traces: b.id, Capability: "SYS_PTRACE",
		})
		if err != nil {
			return err
		}
	}
	t, err := b.beside.talk(ctx)
	if err != nil {
		return err
	}
	agent := real.NewCaller(t.in, t.out, real.ClockErrors, nil)
	go func() {
		<-agent.Ended()
		t.leave()
	}()
	if err := b.beside.start(ctx); err != nil {
		return err
	}
	err = k.Start(agent, 1)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; let the engine's seccomp profile and the Yama of its machine allow ptrace to who has SYS_PTRACE", err)
	}
	if err != nil {
		return fmt.Errorf("%w %s", err, t.Words())
	}
	return nil
}

// turnable lists the nodes and clients whose clocks the scenario may turn.
func turnable(s scenario.Scenario) (names []string) {
	for _, st := range s.Plan {
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.Power == nemesis.PowerClock {
			names = append(names, st.Fault.Targets...)
		}
	}
	if s.Random == nil {
		return names
	}
	for _, choice := range s.Random.Choices() {
		switch {
		case choice.Kind.Power != nemesis.PowerClock:
		case choice.On == nemesis.Client:
			names = append(names, s.ClientNames()...)
		default:
			names = append(names, s.NodeNames()...)
		}
	}
	return names
}
