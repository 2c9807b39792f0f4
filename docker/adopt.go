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
	"sync"

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
	is, err := s.engine.stranger(ctx, called)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.guests, func(g *guest) bool { return g.id == is.ID }) {
		return nil, &Lack{errors.New("it is named twice"), "name each once"}
	}
	at := s.net.at(host)
	if err := s.engine.connect(ctx, s.net.name, is.ID, at); err != nil {
		return nil, fmt.Errorf("connect it to the network of the run: %w", err)
	}
	if err := shared(ctx, s.engine, called, s.net.name); err != nil {
		return nil, err
	}
	b := &box{engine: s.engine, name: called, id: is.ID, near: s.here, here: s.here && os.Geteuid() == 0}
	g := &guest{node: &node{box: b, base: s.base, address: &address{b, host}}, called: called, image: is.Config.Image}
	g.Server = server.Server{Name: called, At: net.JoinHostPort(at.String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.logs(context.Background(), is.ID) }}
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
	errs := make([]error, len(s.guests))
	var all sync.WaitGroup
	for i, g := range s.guests {
		all.Go(func() {
			if err := patiently(ctx, func() error { return g.restore(ctx) }); err != nil {
				errs[i] = fmt.Errorf("leave container %s as it was: %w; see that it runs, and is empty", g.called, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// close removes all that is on the site.
func (s *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeBound)
	defer cancel()
	err := s.release(ctx)
	err = errors.Join(err, clearPatiently(ctx, s.engine, runLabel+"="+s.labels[runLabel]))
	if s.talk != nil {
		s.talk.leave()
	}
	for _, at := range s.clientBoxes {
		if at.talk != nil {
			at.leave()
		}
	}
	return errors.Join(err, s.engine.close())
}
