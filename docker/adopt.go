//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"lockpick/docker/engine"
	"lockpick/harness/owned"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/server"
	"lockpick/harness/scenario"
)

// firstGuest is the first guest's host on the network, see net.go.
const firstGuest = lastHost + 1

// adopt lets the containers of these names be guests of the site. Where a scenario
// names an image for its nodes, they are not asked for.
func (s *site) adopt(ctx context.Context, names []string) error {
	if len(names) == 0 || s.named != "" {
		return nil
	}
	if err := s.join(ctx); err != nil {
		return err
	}
	for i, name := range names {
		g, err := s.adoptOne(ctx, name, firstGuest+i)
		if err != nil {
			return adopting(name, err)
		}
		s.guests = append(s.guests, g)
	}
	return nil
}

// adoptOne connects a container, and sees that it is a server which runs can have. One
// that is refused has not been changed; close takes it off the network.
func (s *site) adoptOne(ctx context.Context, called string, host int) (*guest, error) {
	is, err := s.engine.Inspect(ctx, called)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.guests, func(g *guest) bool { return g.id == is.ID }) {
		return nil, &Lack{errors.New("it is named twice"), "name each once"}
	}
	at := s.net.at(host)
	if err := s.engine.Connect(ctx, s.net.name, is.ID, at); err != nil {
		return nil, fmt.Errorf("connect it to the network of the run: %w", err)
	}
	if err := shared(ctx, s.engine, called, s.net.name); err != nil {
		return nil, err
	}
	b := &box{engine: s.engine, name: called, id: is.ID, near: s.here, here: s.here && os.Geteuid() == 0}
	g := &guest{node: &node{box: b, base: s.base, address: &address{b, host}}, called: called, image: is.Config.Image}
	g.Server = server.Server{Name: called, At: net.JoinHostPort(at.String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.Logs(context.Background(), is.ID) }}
	if v, err := g.Ask(ctx, g.At, "PING"); err == nil && v.Kind == '-' && !strings.HasPrefix(v.Str, "LOADING") {
		return nil, &Lack{fmt.Errorf("to PING it says %s", v.Str), "start its server without a password, and with --protected-mode no"}
	}
	if err := g.begin(ctx); err != nil {
		return nil, &Lack{err, "let its server listen on port " + redisPort + " of all its addresses"}
	}
	return g, g.introduce(ctx)
}

// assignGuests gives the nodes of a run to guests that fit, in their order, and says for what
// lockpick makes the others itself.
func (s *site) assignGuests(sc scenario.Scenario) (reasons []string) {
	s.guestAs = map[string]*guest{}
	turned := turnable(sc)
	fit := slices.DeleteFunc(slices.Clone(s.guests), func(g *guest) bool { return g.persist != sc.Topology.Persistence })
	none := len(fit) == 0
	for _, name := range sc.NodeNames() {
		switch {
		case sc.Topology.Image != "":
			reasons = append(reasons, "topology.image")
		case sc.Topology.Replicas > 0:
			reasons = append(reasons, "replicas")
		case disk.Hit(sc.Plan, name):
			reasons = append(reasons, "disks")
		case slices.Contains(turned, name):
			reasons = append(reasons, "clocks")
		case losesPackets(sc, name): // a restart would give it another network, and its filter none
			reasons = append(reasons, "packets")
		case none:
			reasons = append(reasons, "persistence "+sc.Topology.Persistence)
		case len(fit) == 0:
			reasons = append(reasons, "number of nodes")
		default:
			fit[0].Name, fit[0].name = name, name
			s.guestAs[name], fit = fit[0], fit[1:]
		}
	}
	return reasons
}

// guestNode is the guest that is a node of this run, as if it were new; nil: none is.
func (s *site) guestNode(ctx context.Context, name string) (*node, error) {
	g := s.guestAs[name]
	if g == nil {
		return nil, nil
	}
	return g.node, g.restore(ctx)
}

// release leaves the guests as they were: empty, and running. The network is taken from
// them when it goes.
func (s *site) release(ctx context.Context) error {
	return engine.AtOnce(s.guests, func(g *guest) error {
		if err := engine.Patiently(ctx, func() error { return g.restore(ctx) }); err != nil {
			return fmt.Errorf("leave container %s as it was: %w; see that it runs, and is empty", g.called, err)
		}
		return nil
	})
}

// close removes all that is on the site.
func (s *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	err := s.release(ctx)
	err = errors.Join(err, engine.ClearPatiently(ctx, s.engine, runLabel+"="+s.labels[runLabel]))
	if s.talk != nil {
		s.talk.leave()
	}
	for _, at := range s.clientBoxes {
		if at.talk != nil {
			at.leave()
		}
	}
	return errors.Join(err, s.engine.Close())
}

// bounded says whether a container may not use all of its machine.
func bounded(is container.InspectResponse) bool {
	r := is.HostConfig.Resources
	return r.NanoCPUs > 0 || r.CPUQuota > 0 || r.Memory > 0 && r.Memory != engine.AllMemory
}

// unfit says why a container can't be a node whatever its server is; nil: it can.
func unfit(name string, is container.InspectResponse) error {
	again := is.HostConfig.RestartPolicy.Name
	switch {
	case is.State.Status == container.StatePaused:
		return &Lack{errors.New("it is paused"), "docker unpause " + name}
	case is.State.Status != container.StateRunning:
		return &Lack{errors.New("it does not run, it is " + is.State.Status), "docker start " + name}
	case again != "" && again != container.RestartPolicyDisabled:
		return &Lack{fmt.Errorf("the engine restarts it when it ends (policy %s), and a node that was killed must stay down", again), "docker update --restart no " + name}
	case is.HostConfig.AutoRemove:
		return &Lack{errors.New("the engine removes it when it ends, and a node that was killed must come back"), "start it without --rm"}
	case bounded(is):
		return &Lack{errors.New("its use of processor or memory is bounded, and who starves a node sets these bounds"), "start it without any"}
	}
	if _, ok := owned.Parse(is.Config.Labels[engine.OwnerLabel]); ok {
		return &Lack{fmt.Errorf("it has the label %s, by which lockpicks remove what is their own", engine.OwnerLabel), "start it with --label " + engine.OwnerLabel + "="}
	}
	return nil
}

// shared says that another lockpick runs on a container. It is asked once we are on it,
// for of two who come at once one must see the other.
func shared(ctx context.Context, e *engine.Engine, name, ours string) error {
	is, err := e.Inspect(ctx, name)
	if err != nil {
		return err
	}
	networks, err := e.Networks(ctx, engine.OwnerLabel)
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	for _, n := range networks {
		if _, on := is.NetworkSettings.Networks[n.Name]; on && n.Name != ours {
			return &Lack{fmt.Errorf("another lockpick runs on it, by network %s", n.Name),
				fmt.Sprintf("wait for its end; if it was killed: docker network disconnect --force %s %s", n.Name, name)}
		}
	}
	return nil
}

// adopting says what to do about a container that is not there.
func adopting(name string, err error) error {
	err = fmt.Errorf("adopt container %s: %w", name, err)
	if errors.Is(err, engine.ErrNoContainer) {
		return &Lack{err, "docker ps shows those that run"}
	}
	return err
}
