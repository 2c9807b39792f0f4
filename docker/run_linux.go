package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/proc"
)

// pingBound is how long the engine may take to say that it is there.
const pingBound = 5 * time.Second

const startEngine = "apt-get install docker.io; dockerd &"

// lacks asks for the engine, and whether there is something to make clients of. Nodes'
// images may have to be pulled: only Prepare tells.
func (b *Backend) lacks(ctx context.Context) (reason, remedy string) {
	if reason, remedy = lacksEngine(ctx); reason != "" || len(b.cfg.Client) > 0 {
		return reason, remedy
	}
	e, err := connect()
	if err != nil {
		return firstLine(err), "see DOCKER_HOST"
	}
	defer e.close()
	arch, err := e.arch(ctx)
	if err != nil {
		return "the engine does not say what it runs on: " + firstLine(err), startEngine
	}
	err = b.lacksProgram(ctx, arch)
	var lack *Lack
	switch {
	case errors.As(err, &lack):
		return lack.Reason.Error(), lack.Remedy
	case err != nil:
		return firstLine(err), byHand(arch)
	}
	return "", ""
}

func lacksEngine(ctx context.Context) (reason, remedy string) {
	e, err := connect()
	if err != nil {
		return firstLine(err), "see DOCKER_HOST"
	}
	defer e.close()
	if !strings.HasPrefix(e.host(), "unix://") {
		return "the engine is at " + e.host() + ", and so far it must be on this machine", "unset DOCKER_HOST"
	}
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	platform, err := e.platform(ctx)
	if err != nil {
		return "no Docker engine answers at " + e.host() + ": " + firstLine(err), startEngine
	}
	if platform != "linux" {
		return "the engine's containers run on " + platform, "let the engine run Linux containers"
	}
	return "", ""
}

// runs counts the runs of this process.
var runs atomic.Int64

// Run makes the network, the containers and the links, calls body just after true time
// zero, and takes all down again. On the seed depends what is drawn for messages;
// clients get theirs with their Spec.
func (b *Backend) Run(ctx context.Context, s harness.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	if reason, remedy := lacksEngine(ctx); reason != "" {
		return fmt.Errorf("run: %s; to fix it: %s", reason, remedy)
	}
	e, err := connect()
	if err != nil {
		return err
	}
	c := newCluster(ctx, seed, e, rec)
	defer func() { err = errors.Join(err, e.close()) }()
	if err := c.identify(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }() // after a panic in body, too
	for _, setUp := range []func(harness.Scenario) error{
		func(s harness.Scenario) error { return c.makeImages(b, s) },
		c.makeNetwork,
		c.fill,
		c.Open,
	} {
		if err := setUp(s); err != nil {
			return err
		}
	}
	c.Begin()
	return body(c.ctx, c)
}

// identify says whose all is that the run makes, and by which names.
func (c *cluster) identify() error {
	self, err := proc.Self()
	if err != nil {
		return err
	}
	run := fmt.Sprintf("%s.%d", self, runs.Add(1))
	c.labels = map[string]string{ownerLabel: self.String(), runLabel: run}
	c.prefix = "lockpick-" + run + "-"
	return nil
}

// makeImages sees to it that the engine has the images, and sweeps what others left.
// Nothing is said of what it takes: Prepare has done it before, if anybody cares.
func (c *cluster) makeImages(b *Backend, s harness.Scenario) (err error) {
	from := supply{b, c.engine, map[string]string{ownerLabel: c.labels[ownerLabel]}, func(string) {}}
	if c.stock, err = from.nodes(c.ctx, s.Topology.Image); err != nil {
		return err
	}
	client, command, err := from.clients(c.ctx)
	if err != nil {
		return err
	}
	c.server, c.self = c.stock.program, command
	c.images.redis, c.images.client = c.stock.ref, client.ref
	return c.engine.sweep(c.ctx, c.images.redis, c.images.client)
}

func (c *cluster) makeNetwork(s harness.Scenario) (err error) {
	if n, m := len(s.NodeNames()), len(s.Clients); firstNode+n > firstClient || firstClient+m-1 > lastHost {
		return fmt.Errorf("make a network: it has room for %d nodes and %d clients, not for %d and %d",
			firstClient-firstNode, lastHost-firstClient+1, n, m)
	}
	c.net, err = makeNet(c.ctx, c.engine, strings.TrimSuffix(c.prefix, "-"), c.labels)
	c.Mesh.Host = c.net.at(gatewayHost).String()
	return err
}

// fill makes all containers, at once, and returns when the servers answer and the
// clients wait for their orders.
func (c *cluster) fill(s harness.Scenario) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	do := func(f func() error) {
		all.Go(func() {
			err := f()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	server := func(name string, host int, persist string, keep func(*node)) {
		do(func() error {
			n, err := c.makeNode(name, host, persist)
			mu.Lock()
			defer mu.Unlock()
			keep(n)
			return err
		})
	}
	server(harness.ResourceName, resourceHost, "none", func(n *node) { c.resource = n })
	for i, name := range s.NodeNames() {
		server(name, firstNode+i, s.Topology.Persistence, func(n *node) { c.nodes[name] = n })
	}
	for i, client := range s.Clients {
		c.hosts[client.Name] = firstClient + i
		do(func() error {
			p, err := c.makePlayer(client.Name, firstClient+i)
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.waiting[client.Name] = p
			return nil
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
