//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness/real"
	"lockpick/harness/real/packets"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Packets loses packets in the network namespace that it is started in, as it is told
// on in. It is what a program that makes a Backend has to do when its first argument is
// "__packets".
func Packets(in io.Reader, out io.Writer) error {
	f, err := packets.Open()
	if err != nil {
		return err
	}
	s := real.CallServer{Of: func() []any { return []any{f} }}
	return errors.Join(s.Serve(in, out), f.Close())
}

// firstPort is the first of the ports that links dial from, where their packets are
// told apart by them.
const firstPort = 10000

// filter is the container beside a node that loses its packets, for one run.
type filter struct {
	*box
	node *node

	mu     sync.Mutex
	talk   *talk
	caller *real.Caller
	rules  map[string][]packets.Rule // in force, by link
}

// mayFilter is the capability without which nobody has rules for packets.
const mayFilter = "NET_ADMIN"

func (s *base) makeFilter(ctx context.Context, n *node, may string) (*filter, error) {
	b, err := s.makeBox(ctx, n.name+"-packets", 0, engine.Making{
		Image: s.image, Command: []string{s.links[0], packetsVerb}, Talks: true, Beside: n.address.id, Capability: may,
	})
	if err != nil {
		return nil, err
	}
	f := &filter{box: b, node: n, rules: map[string][]packets.Rule{}}
	if err := f.begin(ctx); err != nil {
		return nil, errors.Join(err, f.remove(ctx))
	}
	return f, nil
}

// begin starts it, and returns once it can lose packets.
func (f *filter) begin(ctx context.Context) (err error) {
	if f.talk, err = f.startTalking(ctx); err != nil {
		return err
	}
	f.caller = real.NewCaller(f.talk.in, f.talk.out, nil, nil)
	limit, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	if err := f.caller.Call(limit, "Ready", nil); err != nil {
		f.Kill(ctx) // or what it says may not have come yet
		return fmt.Errorf("lose packets beside %s: %w: %s", f.node.name, err, f.talk.Words())
	}
	return nil
}

// call calls what does something to packets. It takes milliseconds, unless somebody has stopped it.
func (f *filter) call(ctx context.Context, call string, r packets.Rule, results ...any) error {
	ctx, cancel := context.WithTimeout(ctx, readyBound)
	defer cancel()
	return f.caller.Call(ctx, call, real.CallArgs{r}, results...)
}

func (f *filter) cut(ctx context.Context, link string, rules []packets.Rule) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rules[link] != nil {
		return errors.New("its packets are lost already")
	}
	for _, r := range rules {
		if err := f.call(ctx, "Drop", r); err != nil {
			return err
		}
		f.rules[link] = append(f.rules[link], r)
	}
	return nil
}

// count adds up what is said of each rule of a link.
func (f *filter) count(ctx context.Context, call, link string) (sum int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules[link] {
		var lost int
		if err := f.call(ctx, call, r, &lost); err != nil {
			return 0, err
		}
		sum += lost
	}
	if call == "Pass" {
		delete(f.rules, link)
	}
	return sum, nil
}

// close lets all packets pass, and removes it. The namespace is the node's, and would
// keep what a filter leaves there.
// leaveBound is how long a filter may take to let all packets pass.
const leaveBound = 5 * time.Second

func (f *filter) close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Runs() {
		f.mayEnd(true)
		f.talk.leave()
		select {
		case <-f.Done():
		case <-time.After(leaveBound):
		case <-ctx.Done():
		}
	}
	if _, err := f.Kill(ctx); err == nil || f.End() != nil {
		f.node.spoiled.Store(true)
	}
	return f.remove(ctx)
}

// losesPackets says whether a plan cuts links to a node, or the resource, by packets.
func losesPackets(s scenario.Scenario, node string) bool {
	return slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		return st.Fault.Mode == nemesis.CutPackets && slices.ContainsFunc(st.Fault.Targets, func(target string) bool {
			_, end, _ := nemesis.SplitLink(target)
			switch {
			case target == node || end == node:
				return true
			case node == scenario.ResourceName:
				return end == "resource"
			}
			return slices.Contains(s.ClientNames(), target)
		})
	})
}

// filterPackets makes a filter beside each node whose packets the plan loses: it takes
// tenths of a second, and a fault is to begin at its instant.
func (fs *packetFilters) filterPackets(s scenario.Scenario, server func(name string) *node) error {
	var mu sync.Mutex
	return engine.AtOnce(append(s.NodeNames(), scenario.ResourceName), func(name string) error {
		if !losesPackets(s, name) {
			return nil
		}
		f, err := fs.base.makeFilter(fs.ctx, server(name), mayFilter)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		fs.by[name] = f
		return nil
	})
}

func (fs *packetFilters) unfilter(ctx context.Context) error {
	var errs []error
	for _, f := range fs.by {
		errs = append(errs, f.close(ctx))
	}
	return errors.Join(errs...)
}

// CutPackets loses the packets of a link in the network namespace of its node.
func (fs *packetFilters) CutPackets(link, way string) (string, error) {
	f, err := fs.filterOf(link)
	if err != nil {
		return "", err
	}
	ports, err := fs.base.remote.Ports(link)
	if err != nil {
		return "", err
	}
	var rules []packets.Rule
	for _, w := range []string{nemesis.Request, nemesis.Reply} {
		if way == "" || way == w {
			rules = append(rules, packets.Rule{Peer: fs.base.net.at(linksHost), First: uint16(ports.First), Last: uint16(ports.Last), Way: w})
		}
	}
	if err := f.cut(fs.ctx, link, rules); err != nil {
		return "", fmt.Errorf("cut %s: %w", link, err)
	}
	if !f.node.Runs() {
		return "the node is down", nil
	}
	back, err := fs.base.remote.Silent(link)
	if err != nil {
		return "", err
	}
	lost, err := f.count(fs.ctx, "Lost", link)
	if err != nil {
		return "", fmt.Errorf("cut %s: %w", link, err)
	}
	if lost == 0 && f.node.Runs() {
		return "", fmt.Errorf("cut %s: PING got no answer, and no packet was lost: something else is done to the link", link)
	}
	return fmt.Sprintf("%s; %d packets were lost", back, lost), nil
}

// MendPackets lets them pass again.
func (fs *packetFilters) MendPackets(link string) (string, error) {
	f, err := fs.filterOf(link)
	if err != nil {
		return "", err
	}
	lost, err := f.count(fs.ctx, "Pass", link)
	if err != nil {
		return "", fmt.Errorf("mend %s: %w", link, err)
	}
	back, err := fs.base.remote.Heard(link)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d packets were lost; %s", lost, back), nil
}

func (fs *packetFilters) filterOf(link string) (*filter, error) {
	_, node, _ := nemesis.SplitLink(link)
	if f := fs.by[strings.Replace(node, "resource", scenario.ResourceName, 1)]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("lose packets of %s: the plan has said nothing of it", link)
}

type packetFilters struct {
	base *base
	ctx  context.Context    // ends with the run
	by   map[string]*filter // by node
}

var _ nemesis.PacketCutter = (*packetFilters)(nil)
