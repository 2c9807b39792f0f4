//go:build linux

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/owned"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
)

// serverOf is a container of somebody else's with a redis-server.
type serverOf struct {
	*testing.T
	engine *engine.Engine
	name   string
}

// startServer starts one. change makes it another than runs can have, if it is not nil.
func startServer(t *testing.T, name string, change func(*container.Config, *container.HostConfig)) serverOf {
	t.Helper()
	e := testEngine(t)
	self, err := owned.Self()
	if err != nil {
		t.Fatal(err)
	}
	stock, err := testBackend().supply(e, self.String(), func(string) {}).nodes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	c := &container.Config{Image: stock.ref, Entrypoint: []string{stock.program}, Cmd: []string{"--protected-mode", "no", "--save", ""},
		Labels: map[string]string{engine.OwnerLabel: ""}} // or it would have its image's
	h := &container.HostConfig{}
	if change != nil {
		change(c, h)
	}
	s := serverOf{t, e, fmt.Sprintf("%s-of-%d", name, os.Getpid())}
	made, err := e.API.ContainerCreate(t.Context(), c, h, nil, nil, s.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Remove(context.Background(), made.ID) })
	if err := e.API.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	for s.ask("PING") != "PONG" {
		if t.Context().Err() != nil {
			t.FailNow()
		}
	}
	return s
}

// ask asks it by a network that is none of lockpick's; "": it does not answer.
func (s serverOf) ask(command ...string) string {
	is, err := s.engine.API.ContainerInspect(s.Context(), s.name)
	if err != nil {
		s.Fatal(err)
	}
	v, err := proc.Ask(s.Context(), net.JoinHostPort(is.NetworkSettings.Networks["bridge"].IPAddress, redisPort), command...)
	if err != nil {
		return ""
	}
	if v.Kind == ':' {
		return fmt.Sprint(v.Int)
	}
	return v.Str
}

// untouched sees that it runs, is empty, and is on no network but its own.
func (s serverOf) untouched() {
	s.Helper()
	is, err := s.engine.Inspect(s.Context(), s.name)
	if err != nil {
		s.Fatal(err)
	}
	if keys := s.ask("DBSIZE"); is.State.Status != "running" || keys != "0" || !slices.Equal(slices.Sorted(maps.Keys(is.NetworkSettings.Networks)), []string{"bridge"}) || bounded(is) {
		s.Errorf("%s is left behind as %+v with %q keys", s.name, is, keys)
	}
}

// says sees what is said before runs of these.
func says(t *testing.T, b *Backend, all []scenario.Scenario, want ...string) {
	t.Helper()
	var said strings.Builder
	if err := b.Prepare(t.Context(), all, func(line string) { said.WriteString(line + "\n") }); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(said.String(), w) {
			t.Errorf("%q is not in %q", w, said.String())
		}
	}
}

// Two containers serve as n1 and n2 as long as they fit; what is done to them does not
// outlast the run; and they are left as they were.
func TestGuestsServeAndStay(t *testing.T) {
	needEngine(t)
	lent := []serverOf{startServer(t, "one", nil), startServer(t, "two", nil)}
	backend := testBackend()
	backend.cfg.Nodes = []string{lent[0].name, lent[1].name}
	lasting := twoNodes
	lasting.Topology.Persistence = "always"
	says(t, backend, []scenario.Scenario{twoNodes, lasting}, "container "+lent[1].name+" serves as a node: image ",
		"nodes of its own in 1 of 2 scenarios, where these don't fit: persistence always (1)")
	run := func(s scenario.Scenario, body func(b bench)) {
		t.Helper()
		err := backend.Run(t.Context(), s, 1, history.NewRecorder(&bytes.Buffer{}), func(_ context.Context, c harness.Cluster) error {
			for i, name := range []string{"n1", "n2"} {
				is, err := lent[i].engine.Inspect(t.Context(), lent[i].name)
				if ours := c.(*cluster).Nodes.Server(name).id != is.ID; err != nil || ours != (s.Topology.Persistence == "always") {
					t.Errorf("persistence %s: %s is lockpick's own: %v, %v", s.Topology.Persistence, name, ours, err)
				}
			}
			body(bench{T: t, cluster: c.(*cluster)})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	run(twoNodes, func(b bench) {
		if err := b.RunClient(t.Context(), spec("c1", 1), never); err != nil {
			t.Error(err)
		}
		b.do("touch", func() (string, error) { return b.Touch("n1") })
		b.do("kill", func() (string, error) { return b.Kill("n1") })
		if back := b.do("restart", func() (string, error) { return b.Restart("n1") }); !strings.HasSuffix(back, " (keys: 0)") {
			t.Errorf("restart says %q", back)
		}
		b.do("shut down", func() (string, error) { return b.Shutdown("n1") })
		b.do("pause", func() (string, error) { return b.Pause("n2") })
		if server := b.Stock(); !strings.Contains(server, "; n2 is container "+lent[1].name) {
			t.Errorf("nodes run %q", server)
		}
	})
	run(twoNodes, func(b bench) {
		b.do("unplug", func() (string, error) { return b.Unplug("n1") })
		b.do("plug", func() (string, error) { return b.Plug("n1") })
		err := New(Config{Nodes: backend.cfg.Nodes[1:], Client: backend.cfg.Client}).Prepare(t.Context(), []scenario.Scenario{twoNodes}, never)
		if err == nil || !strings.Contains(err.Error(), "another lockpick runs on it") {
			t.Errorf("to who adopts it, too, is said: %v", err)
		}
		b.do("starve", func() (string, error) { return b.Starve("n2", 0.5, 0) })
	})
	run(lasting, func(bench) {})
	run(twoNodes, func(b bench) {
		b.do("touch", func() (string, error) { return b.Touch("n1") })
		b.do("unplug", func() (string, error) { return b.Unplug("n1") })
		b.do("kill", func() (string, error) { return b.Kill("n2") })
	})
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range lent {
		s.untouched()
	}
	self, err := owned.Self()
	if err != nil {
		t.Fatal(err)
	}
	if left := remains(t, engine.OwnerLabel+"="+self.String()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What can't serve as a node is refused before the first run, with what to do, and is
// left as it is.
func TestGuestsThatWillNotDo(t *testing.T) {
	needEngine(t)
	self, err := owned.Self()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change       func(*container.Config, *container.HostConfig)
		then         func(s serverOf) error
		want, remedy string
	}{
		"ended":     {then: func(s serverOf) error { return s.engine.API.ContainerKill(t.Context(), s.name, "KILL") }, want: "it does not run, it is exited", remedy: "docker start "},
		"paused":    {then: func(s serverOf) error { return s.engine.API.ContainerPause(t.Context(), s.name) }, want: "it is paused", remedy: "docker unpause "},
		"restarted": {change: func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy.Name = "always" }, want: "policy always", remedy: "docker update --restart no "},
		"passing":   {change: func(_ *container.Config, h *container.HostConfig) { h.AutoRemove = true }, want: "the engine removes it", remedy: "--rm"},
		"bounded":   {change: func(_ *container.Config, h *container.HostConfig) { h.Memory = 1 << 28 }, want: "bounded", remedy: "start it without any"},
		"labelled":  {change: func(c *container.Config, _ *container.HostConfig) { c.Labels[engine.OwnerLabel] = self.String() }, want: "the label lockpick", remedy: "--label lockpick="},
		"saving":    {change: func(c *container.Config, _ *container.HostConfig) { c.Cmd = append(c.Cmd, "--save", "60 1") }, want: "save 60 1", remedy: "--save ''"},
		"used":      {then: func(s serverOf) error { s.ask("SET", "mine", "1"); return nil }, want: "db0:keys=1", remedy: "redis-cli FLUSHALL"},
		"follower":  {then: func(s serverOf) error { s.ask("REPLICAOF", "192.0.2.1", "6379"); return nil }, want: "it is not so that role:master", remedy: "alone"},
		"locked":    {then: func(s serverOf) error { s.ask("CONFIG", "SET", "requirepass", "x"); return nil }, want: "NOAUTH", remedy: "without a password"},
	} {
		t.Run(what, func(t *testing.T) {
			s := startServer(t, what, c.change)
			if c.then != nil {
				if err := c.then(s); err != nil {
					t.Fatal(err)
				}
			}
			before, err := s.engine.Inspect(t.Context(), s.name)
			if err != nil {
				t.Fatal(err)
			}
			backend := testBackend()
			backend.cfg.Nodes = []string{s.name}
			err = backend.Prepare(t.Context(), []scenario.Scenario{twoNodes}, never)
			var lack *Lack
			if !errors.As(err, &lack) || !strings.Contains(err.Error(), "adopt container "+s.name+": ") || !strings.Contains(lack.Error(), c.want) || !strings.Contains(lack.Remedy, c.remedy) {
				t.Errorf("it is refused with %v", err)
			}
			after, err := s.engine.Inspect(t.Context(), s.name)
			if err != nil || !slices.Equal(slices.Sorted(maps.Keys(after.NetworkSettings.Networks)), slices.Sorted(maps.Keys(before.NetworkSettings.Networks))) || after.State.Status != before.State.Status || what == "used" && s.ask("DBSIZE") != "1" {
				t.Errorf("it was %+v, and is %+v: %v", before, after, err)
			}
			if err := backend.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	backend := testBackend()
	backend.cfg.Nodes = []string{"nobody"}
	if err := backend.Prepare(t.Context(), []scenario.Scenario{twoNodes}, never); err == nil || err.Error() != "adopt container nobody: the engine has no such container; to fix it: docker ps shows those that run" {
		t.Errorf("who is not there is refused with %v", err)
	}
}

// A guest that a killed lockpick had, and has left down, can be started again once the
// next one has removed that one's network.
func TestGuestOutlivesKillNine(t *testing.T) {
	needEngine(t)
	s := startServer(t, "survivor", nil)
	cmd, owner := startVictim(t, s.name)
	cmd.Process.Kill()
	cmd.Wait()
	if is, err := s.engine.Inspect(t.Context(), s.name); err != nil || is.State.Status != "exited" || len(is.NetworkSettings.Networks) != 2 {
		t.Fatalf("it is %+v, and nothing is shown: %v", is, err)
	}
	run(t, twoNodes, func(bench) {})
	if left := remains(t, engine.OwnerLabel+"="+strings.TrimSpace(owner)); owner == "" || len(left) > 0 {
		t.Errorf("of %q is left %v", owner, left)
	}
	if err := s.engine.API.ContainerStart(t.Context(), s.name, container.StartOptions{}); err != nil {
		t.Error(err)
	}
	for s.ask("PING") != "PONG" && t.Context().Err() == nil {
	}
	s.untouched()
}
