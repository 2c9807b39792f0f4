package docker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
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

// lacks asks for the engine and looks at what images are to be made of.
func (b *Backend) lacks(ctx context.Context) (reason, remedy string) {
	if reason, remedy = lacksEngine(ctx); reason != "" {
		return reason, remedy
	}
	if _, _, err := b.images(); err != nil {
		return firstLine(err), "apt-get install redis-server"
	}
	return "", ""
}

func lacksEngine(ctx context.Context) (reason, remedy string) {
	e, _, err := meet(ctx)
	if err != nil {
		return explain(err)
	}
	e.close()
	return "", ""
}

// explain says why there is no engine, and what to do.
func explain(err error) (reason, remedy string) {
	remedy = "see DOCKER_HOST"
	if a := (*astray)(nil); errors.As(err, &a) {
		remedy = a.remedy
	}
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
	const ours = "DOCKER_HOST=unix://" + usualSocket + " chooses this machine's"
	if !e.at.isSocket() {
		return about{}, &astray{fmt.Errorf("the engine is at %s, and so far it must be on this machine", e.at), ours}
	}
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	a, err := e.about(ctx)
	switch {
	case err != nil:
		return a, err
	case a.platform != "linux":
		return a, &astray{fmt.Errorf("the engine's containers run on %s", a.platform), "let the engine run Linux containers"}
	case !e.at.isHere(a):
		return a, &astray{fmt.Errorf("the engine at %s has another kernel, %s, and so far it must be on this machine", e.at, a.kernel), ours}
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

// images reads the programs that containers are to run.
func (b *Backend) images() (redis, client *image, err error) {
	server, err := b.server()
	if err != nil {
		return nil, nil, err
	}
	self, err := b.client()
	if err != nil {
		return nil, nil, err
	}
	redis, err = imageOf("redis", server)
	if err != nil {
		return nil, nil, err
	}
	client, err = imageOf("client", self[0])
	return redis, client, err
}

func (b *Backend) server() (string, error) {
	path, err := exec.LookPath(b.cfg.RedisServer)
	if err != nil {
		return "", fmt.Errorf("%s is not on PATH, and there is nothing to make a node of", b.cfg.RedisServer)
	}
	return filepath.Abs(path)
}

// runs counts the runs of this process.
var runs atomic.Int64

// Run makes the network, the containers and the links, calls body just after true time
// zero, and takes all down again. On the seed depends what is drawn for messages;
// clients get theirs with their Spec.
func (b *Backend) Run(ctx context.Context, s harness.Scenario, seed uint64, rec *history.Recorder, body harness.Body) (err error) {
	e, _, err := meet(ctx)
	if err != nil {
		reason, remedy := explain(err)
		return fmt.Errorf("run: %s; to fix it: %s", reason, remedy)
	}
	c := newCluster(ctx, seed, e, rec)
	defer func() { err = errors.Join(err, e.close()) }()
	if err := c.identify(b); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }() // after a panic in body, too
	for _, setUp := range []func(harness.Scenario) error{
		func(harness.Scenario) error { return c.makeImages(b) },
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
func (c *cluster) identify(b *Backend) (err error) {
	self, err := proc.Self()
	if err != nil {
		return err
	}
	if c.server, err = b.server(); err != nil {
		return err
	}
	if c.self, err = b.client(); err != nil {
		return err
	}
	if c.self[0], err = filepath.Abs(c.self[0]); err != nil {
		return err
	}
	run := fmt.Sprintf("%s.%d", self, runs.Add(1))
	c.labels = map[string]string{ownerLabel: self.String(), runLabel: run}
	c.prefix = "lockpick-" + run + "-"
	return nil
}

// makeImages sweeps what others left, and sees to it that the engine has the images.
func (c *cluster) makeImages(b *Backend) error {
	redis, client, err := b.images()
	if err != nil {
		return err
	}
	if err := c.engine.sweep(c.ctx, redis.ref, client.ref); err != nil {
		return err
	}
	c.images.redis, c.images.client = redis.ref, client.ref
	if err := redis.provide(c.ctx, c.engine, c.labels[ownerLabel]); err != nil {
		return err
	}
	return client.provide(c.ctx, c.engine, c.labels[ownerLabel])
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
