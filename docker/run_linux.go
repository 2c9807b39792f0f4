package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/owned"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/harness/shortage"
	"lockpick/nemesis"
)

// pingBound is how long the engine may take to say that it is there.
const pingBound = 5 * time.Second

const startEngine = "apt-get install docker.io; dockerd &"

// lacks asks for the engine, whether there is something to make clients of, and what
// can be done to containers there. Nodes' images may have to be pulled: only Prepare tells.
func (b *Backend) lacks(ctx context.Context) (l lacking) {
	e, a, err := meet(ctx)
	if err != nil {
		l.run = whyOf(explain(err))
		return l
	}
	defer e.close()
	l.run = whyOf(b.lacksClients(ctx, a.arch))
	l.clocks = whyOf(lacksClocks(a.arch))
	l.disks = whyOf(e.at.lacksDisk(a))
	if l.bounds.reason = e.starves(ctx); l.bounds.reason != "" {
		l.bounds.remedy = "see the warnings of docker info"
	}
	return l
}

// lacksClients says why there is no program for clients on an architecture.
func (b *Backend) lacksClients(ctx context.Context, arch string) (reason, remedy string) {
	if len(b.cfg.Client) > 0 {
		return "", ""
	}
	err := b.lacksProgram(ctx, arch)
	var lack *Lack
	switch {
	case errors.As(err, &lack):
		return lack.Reason.Error(), lack.Remedy
	case err != nil:
		return firstLine(err), cmp.Or(shortage.Remedy(err, shortage.Temporary), byHand(arch))
	}
	return "", ""
}

// explain says why there is no engine, and what to do.
func explain(err error) (reason, remedy string) {
	remedy = "see DOCKER_HOST"
	if a := (*endpointError)(nil); errors.As(err, &a) {
		remedy = a.remedy
	}
	remedy = cmp.Or(shortage.Remedy(err, shortage.Temporary), remedy)
	return firstLine(err), remedy
}

// meet finds the engine, agrees with it on an API, and sees that it serves.
func meet(ctx context.Context) (*engine, about, error) {
	e, err := connect()
	if err != nil {
		return nil, about{}, err
	}
	a, err := e.serves(ctx)
	if err != nil {
		return nil, about{}, errors.Join(err, e.close())
	}
	return e, a, nil
}

func (e *engine) serves(ctx context.Context) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	a, err := e.about(ctx)
	switch {
	case err != nil:
		return a, err
	case a.platform != "linux":
		return a, &endpointError{fmt.Errorf("the engine's containers run on %s", a.platform), "let the engine run Linux containers"}
	}
	return a, nil
}

// engineRemark says which engine it is.
func engineRemark(ctx context.Context) string {
	e, a, err := meet(ctx)
	if err != nil {
		return firstLine(err)
	}
	defer e.close()
	return fmt.Sprintf("the engine is %s at %s (context %s, API %s)", a.version, e.at.host, e.at.context, a.api)
}

// sites counts the sites of this process.
var sites atomic.Int64

// Run makes the network and the containers, or takes those of the run before, makes the
// links, and calls body just after true time zero. What will do for the next run it
// leaves to it. On the seed depends what is drawn for messages; clients get theirs with
// their Spec.
func (b *Backend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	b.founding.RLock()
	founded := sync.OnceFunc(b.founding.RUnlock)
	defer founded()
	st, err := b.take(ctx, s)
	if err != nil {
		return err
	}
	if st.talk != nil { // it is of a run before
		founded()
	}
	c := newCluster(ctx, st, rec)
	well := false
	defer func() { // after a panic in body, too
		err = errors.Join(err, c.close())
		if well && err == nil {
			b.give(st)
			return
		}
		err = errors.Join(err, st.close())
	}()
	if err := c.mountDisks(s); err != nil {
		return err
	}
	if err := c.fill(s); err != nil {
		return err
	}
	founded()
	b.founding.Lock() // a run that began while another's site is made would be late in all it does
	//lint:ignore SA2001 it only waits for the others
	b.founding.Unlock()
	if err := c.filterPackets(s); err != nil {
		return err
	}
	if err := c.open(s, seed); err != nil {
		return err
	}
	go c.watch()
	for _, setUp := range []func(scenario.Scenario) error{c.tell, c.replicate, c.beWatched, c.awaitSecond} {
		if err := setUp(s); err != nil {
			return err
		}
	}
	if err := c.begin(); err != nil {
		return err
	}
	err = body(c.ctx, c)
	well = c.clean()
	return err
}

// take is the site that the run before has left, or a new one.
func (b *Backend) take(ctx context.Context, s scenario.Scenario) (*site, error) {
	if err := b.Fits(s); err != nil {
		return nil, err
	}
	st := b.left()
	if st != nil && st.named == s.Topology.Image && st.lives() && st.assignHosts(s.ClientNames()) {
		return st, nil
	}
	if st != nil {
		if err := st.close(); err != nil {
			return nil, err
		}
	}
	e, a, err := meet(ctx)
	if err != nil {
		reason, remedy := explain(err)
		return nil, fmt.Errorf("run: %s; to fix it: %s", reason, remedy)
	}
	st = &site{engine: e, here: e.at.isHere(a) && !b.far, named: s.Topology.Image, joined: make(chan struct{}), nodes: map[role]*node{}, clientBoxes: map[string]*clientBox{}, hosts: map[string]int{}, housed: map[int]bool{}, places: map[int]*place{}}
	if err := st.identify(); err != nil {
		return nil, errors.Join(err, e.close())
	}
	st.assignHosts(s.ClientNames())
	if err := st.found(ctx, b); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// Fits says why a scenario is too large, whatever the machine.
func (*Backend) Fits(s scenario.Scenario) error {
	if n, m := len(s.NodeNames()), len(s.Clients); firstNode+n > firstReplica || firstClient+m-1 > lastHost {
		return fmt.Errorf("make a network: it has room for %d nodes and %d clients, not for %d and %d",
			firstReplica-firstNode, lastHost-firstClient+1, n, m)
	}
	return nil
}

// left takes a site that a run before has left; nil: there is none.
func (b *Backend) left() *site {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.idle)
	if n == 0 {
		return nil
	}
	st := b.idle[n-1]
	b.idle = b.idle[:n-1]
	return st
}

// give keeps a site for the next run.
func (b *Backend) give(st *site) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, st)
}

// Close removes what runs have left for the next one.
func (b *Backend) Close() error {
	var errs []error
	for st := b.left(); st != nil; st = b.left() {
		errs = append(errs, st.close())
	}
	return errors.Join(errs...)
}

// identify says whose all is that is made on the site, and by which names.
func (s *site) identify() error {
	self, err := owned.Self()
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%s.%d", self, sites.Add(1))
	s.labels = map[string]string{ownerLabel: self.String(), runLabel: id}
	s.prefix = "lockpick-" + id + "-"
	return nil
}

// found sees to it that the engine has the images, sweeps what others left, and makes
// the network. Nothing is said of what images take: Prepare has got them before, if
// anybody cares.
func (s *site) found(ctx context.Context, b *Backend) (err error) {
	from := supply{b, s.engine, map[string]string{ownerLabel: s.labels[ownerLabel]}, func(string) {}}
	if s.stock, err = from.nodes(ctx, s.named); err != nil {
		return err
	}
	client, command, err := from.clients(ctx)
	if err != nil {
		return err
	}
	s.client, s.links = command, []string{command[0], linksVerb}
	s.room = append([]string{command[0], roomVerb}, command...)
	s.image, s.own = client.ref, client
	if err := s.engine.sweep(ctx, s.here, s.stock.ref, s.image); err != nil {
		return err
	}
	if _, err := proc.Sweep(os.TempDir()); err != nil { // disks, after the containers that had them
		return err
	}
	if s.net, err = makeNet(ctx, s.engine, strings.TrimSuffix(s.prefix, "-"), s.labels); err != nil {
		return err
	}
	return s.adopt(ctx, b.cfg.Nodes)
}

// fill makes all containers that are not there, at once, and returns when the servers
// answer and the clients wait for their orders.
func (c *cluster) fill(s scenario.Scenario) error {
	var all sync.WaitGroup
	var errs []error // guarded by c.mu, as what is kept
	do := func(make func() error) {
		all.Go(func() {
			if err := make(); err != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	server := func(name string, host int, want wanted, keep func(*node)) {
		do(func() error {
			want.turner = c.turners[name]
			// Nodes with replicas are changed in ways that wipe does not know.
			want.once = want.turner != nil || want.data != "" || s.Topology.Replicas > 0 && name != scenario.ResourceName
			n, err := c.site.makeNode(c.ctx, name, host, want)
			c.mu.Lock()
			defer c.mu.Unlock()
			if n != nil {
				keep(n)
			}
			return err
		})
	}
	c.wind(s)
	c.names = s.NodeNames()
	c.site.lend(s)
	if err := c.site.vacate(c.ctx, len(c.names)); err != nil {
		return err
	}
	if c.site.talk == nil {
		do(func() error { return c.site.join(c.ctx) })
	}
	server(scenario.ResourceName, resourceHost, wanted{persist: "none"}, func(n *node) { c.resource = n })
	for i, name := range c.names {
		want := wanted{persist: s.Topology.Persistence, data: c.dataOf(name)}
		server(name, anyNode, want, func(n *node) {
			n.disk = c.Of(name)
			c.Serve(name, n)
		})
		if s.Topology.Replicas > 0 {
			server(nemesis.LinkName(name, nemesis.Replica), firstReplica+i, wanted{persist: s.Topology.Persistence, once: true}, func(n *node) { c.replicas[name] = n })
		}
	}
	for _, client := range s.ClientNames() {
		do(func() error {
			p, err := c.site.makePlayer(c.ctx, client, c.turners[client])
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.waiting[client] = p
			return nil
		})
	}
	all.Wait()
	c.Remote = c.site.remote
	return errors.Join(errs...)
}

// awaitSecond lets a run under everysec begin with a second of the nodes' wall clock.
// Redis up to 7.0 counts by these, not from its last sync: a plan that places a crash
// between two syncs needs no luck then.
func (c *cluster) awaitSecond(s scenario.Scenario) error {
	if s.Topology.Persistence != "everysec" {
		return nil
	}
	r, err := c.readTime(c.Nodes.Server(c.names[0]))
	if err != nil {
		return err
	}
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-time.After(time.Second - time.Duration(r.Wall)%time.Second):
		return nil
	}
}
