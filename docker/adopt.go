//go:build linux

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"lockpick/harness/owned"
	"lockpick/harness/real/disk"
	"lockpick/harness/real/server"
	"lockpick/harness/scenario"
)

// guest is a container of Config.Nodes, which somebody else has made: it serves as a
// node, on the site's network besides its own. Faults hit it as they hit lockpick's own
// nodes, but it is never removed. What a run has done to it and a wipe does not undo, a
// restart does.
type guest struct {
	*node
	called  string // by who made it
	image   string
	version string // as in redis 7.0.15
	persist string // as a scenario's topology.persistence
	notify  string // its notify-keyspace-events, which runs change
}

// notify is the setting by which a server tells of its keys.
const notify = "notify-keyspace-events"

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
		g, err := s.welcome(ctx, name, firstGuest+i)
		if err != nil {
			return adopting(name, err)
		}
		s.guests = append(s.guests, g)
	}
	return nil
}

// welcome connects a container, and sees that it is a server which runs can have. One
// that is refused has not been changed; close takes it off the network.
func (s *site) welcome(ctx context.Context, called string, host int) (*guest, error) {
	is, err := s.engine.stranger(ctx, called)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.guests, func(g *guest) bool { return g.id == is.id }) {
		return nil, &Lack{errors.New("it is named twice"), "name each once"}
	}
	at := s.net.at(host)
	if err := s.engine.connect(ctx, s.net.name, is.id, at); err != nil {
		return nil, fmt.Errorf("connect it to the network of the run: %w", err)
	}
	if err := s.engine.shared(ctx, called, s.net.name); err != nil {
		return nil, err
	}
	b := &box{engine: s.engine, name: called, id: is.id, near: s.here, here: s.here && os.Geteuid() == 0}
	g := &guest{node: &node{box: b, site: s, place: &place{b, host}}, called: called, image: is.image}
	g.Server = server.Server{Name: called, At: net.JoinHostPort(at.String(), redisPort), Ask: s.ask,
		Log: func() string { return s.engine.logs(context.Background(), is.id) }}
	if v, err := g.Ask(ctx, g.At, "PING"); err == nil && v.Kind == '-' && !strings.HasPrefix(v.Str, "LOADING") {
		return nil, &Lack{fmt.Errorf("to PING it says %s", v.Str), "start its server without a password, and with --protected-mode no"}
	}
	if err := g.begin(ctx); err != nil {
		return nil, &Lack{err, "let its server listen on port " + redisPort + " of all its addresses"}
	}
	return g, g.introduce(ctx)
}

// unfit says why a container can't be a node whatever its server is; nil: it can.
func (s stranger) unfit(name string) error {
	switch {
	case s.status == "paused":
		return &Lack{errors.New("it is paused"), "docker unpause " + name}
	case s.status != "running":
		return &Lack{errors.New("it does not run, it is " + s.status), "docker start " + name}
	case s.restarts != "":
		return &Lack{fmt.Errorf("the engine restarts it when it ends (policy %s), and a node that was killed must stay down", s.restarts), "docker update --restart no " + name}
	case s.vanishes:
		return &Lack{errors.New("the engine removes it when it ends, and a node that was killed must come back"), "start it without --rm"}
	case s.bounded:
		return &Lack{errors.New("its use of processor or memory is bounded, and who starves a node sets these bounds"), "start it without any"}
	}
	if _, ok := owned.Parse(s.owner); ok {
		return &Lack{fmt.Errorf("it has the label %s, by which lockpicks remove what is their own", ownerLabel), "start it with --label " + ownerLabel + "="}
	}
	return nil
}

// shared says that another lockpick runs on a container. It is asked once we are on it,
// for of two who come at once one must see the other.
func (e *engine) shared(ctx context.Context, name, ours string) error {
	is, err := e.stranger(ctx, name)
	if err != nil {
		return err
	}
	networks, err := e.networks(ctx, ownerLabel)
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	for _, n := range networks {
		if n.name != ours && slices.Contains(is.networks, n.name) {
			return &Lack{fmt.Errorf("another lockpick runs on it, by network %s", n.name),
				fmt.Sprintf("wait for its end; if it was killed: docker network disconnect --force %s %s", n.name, name)}
		}
	}
	return nil
}

// introduce asks a server what it is. It must be empty: runs wipe their nodes.
func (g *guest) introduce(ctx context.Context) error {
	info, err := g.Ask(ctx, g.At, "INFO")
	if err != nil {
		return err
	}
	g.version = strings.TrimSuffix(versionIn(info.Str), ", ")
	for _, is := range []string{"redis_mode:standalone", "role:master"} {
		if !strings.Contains(info.Str, "\n"+is+"\r\n") {
			return &Lack{errors.New("its server is no master of its own: it is not so that " + is), "name one that is alone"}
		}
	}
	if _, keys, has := strings.Cut(info.Str, "\ndb"); has {
		keys, _, _ = strings.Cut(keys, ",")
		return &Lack{fmt.Errorf("its server has keys (db%s), and runs wipe their nodes", keys),
			"name one that is empty; if nobody needs the keys: docker exec " + g.called + " redis-cli FLUSHALL"}
	}
	set := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "save", notify} {
		v, err := g.command(ctx, g.called, []string{"CONFIG", "GET", name})
		if err != nil {
			return err
		}
		if pair, ok := v.([]any); ok && len(pair) == 2 {
			set[name] = fmt.Sprint(pair[1])
		}
	}
	if set["save"] != "" {
		return &Lack{fmt.Errorf("its server saves snapshots (save %s), as no scenario's node does", set["save"]), "start it with --save ''"}
	}
	g.notify = set[notify]
	g.persist = set["appendfsync"]
	if set["appendonly"] != "yes" {
		g.persist = "none"
	}
	return nil
}

// lend gives the nodes of a run to guests that fit, in their order, and says for what
// lockpick makes the others itself.
func (s *site) lend(sc scenario.Scenario) (reasons []string) {
	s.lent = map[string]*guest{}
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
			s.lent[name], fit = fit[0], fit[1:]
		}
	}
	return reasons
}

// lentNode is the guest that is a node of this run, as if it were new; nil: none is.
func (s *site) lentNode(ctx context.Context, name string) (*node, error) {
	g := s.lent[name]
	if g == nil {
		return nil, nil
	}
	return g.node, g.restore(ctx)
}

// restore undoes what a run has done to it.
func (g *guest) restore(ctx context.Context) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	if g.starved.Load() {
		if err := g.engine.unbound(ctx, g.id); err != nil {
			return fmt.Errorf("feed %s: %w", g.called, err)
		}
		g.starved.Store(false)
	}
	if g.unplugged.Load() {
		if err := g.engine.connect(ctx, g.site.net.name, g.id, netip.MustParseAddrPort(g.At).Addr()); err != nil {
			return fmt.Errorf("plug %s in: %w", g.called, err)
		}
		g.unplugged.Store(false)
	}
	if _, err := g.Resume(ctx); err != nil {
		return err
	}
	if g.spoiled.Load() && g.Runs() {
		if _, err := g.end(ctx); err != nil {
			return err
		}
	}
	if !g.Runs() {
		if err := g.begin(ctx); err != nil {
			return err
		}
	}
	g.spoiled.Store(false)
	g.tell(ctx)
	if _, err := g.command(ctx, g.called, []string{"CONFIG", "SET", notify, g.notify}); err != nil {
		return err
	}
	return g.wipe(ctx)
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

// like is what the first of some containers runs. It looks at all of them, before
// anything is swept: who has the wrong label would be.
func (s supply) like(ctx context.Context, names []string) (software, error) {
	var image string
	for _, name := range names {
		is, err := s.engine.stranger(ctx, name)
		if err == nil {
			err = is.unfit(name)
		}
		if err != nil {
			return software{}, adopting(name, err)
		}
		image = cmp.Or(image, is.image)
	}
	return s.byName(ctx, image, "docker pull "+image+", which is the image of "+names[0])
}

// prepareGuests adopts the containers of Config.Nodes for the runs to come, and says who
// they are, and in how many runs lockpick makes nodes itself, for what.
func (b *Backend) prepareGuests(ctx context.Context, all []scenario.Scenario, say func(string)) error {
	i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Topology.Image == "" })
	if len(b.cfg.Nodes) == 0 || i < 0 {
		return nil
	}
	st, err := b.take(ctx, all[i])
	if err != nil {
		return err
	}
	defer b.give(st)
	for _, g := range st.guests {
		say(fmt.Sprintf("container %s serves as a node: image %s, %s, persistence %s", g.called, g.image, g.version, g.persist))
	}
	runs, made := map[string]int{}, 0
	for _, s := range all {
		reasons := st.lend(s)
		slices.Sort(reasons)
		for _, r := range slices.Compact(reasons) {
			runs[r]++
		}
		if len(reasons) > 0 {
			made++
		}
	}
	var words []string
	for _, r := range slices.Sorted(maps.Keys(runs)) {
		words = append(words, fmt.Sprintf("%s (%d)", r, runs[r]))
	}
	if made > 0 {
		say(fmt.Sprintf("lockpick makes nodes of its own in %d of %d scenarios, where these don't fit: %s", made, len(all), strings.Join(words, ", ")))
	}
	return nil
}

// adopting says what to do about a container that is not there.
func adopting(name string, err error) error {
	err = fmt.Errorf("adopt container %s: %w", name, err)
	if errors.Is(err, errNoContainer) {
		return &Lack{err, "docker ps shows those that run"}
	}
	return err
}

// lentTo says which nodes of a run are guests.
func (s *site) lentTo(nodes []string) (words string) {
	for _, name := range nodes {
		if g := s.lent[name]; g != nil {
			words += fmt.Sprintf("; %s is container %s (image %s, %s)", name, g.called, g.image, g.version)
		}
	}
	return words
}
