package liveness

import (
	"iter"
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history/facts"
)

// lockState is one lock and those who want it. There may be millions of sessions,
// so what lists them is made when it is first asked for.
type lockState struct {
	*conditions
	lock *facts.Lock
	name string
	wire *facts.Wire             // nil: the links saw nothing of it
	kept map[string][]spans.Span // by node: where a fault kept a key there
	slow map[string][]spans.Span // by node: where a key may have stayed because the host was slow

	called  iter.Seq[*facts.Session]      // its sessions in the order of their call
	waited  *callers                      // memo of callers
	granted []*facts.Session              // memo of grants
	passed  []int                         // memo of grantAfter: of each grant, the next that is not the same again
	clients map[string][]*facts.Session   // memo of byClient
	names   []string                      // of these clients, in the order of their first call
	had     []holder                      // memo of holders
	holds   map[*facts.Session]remembered // memo of hold
	ready   map[string][]spans.Span       // by client: memo of majority
	noticed map[string][]spans.Span       // by client: memo of available
	surely  map[string][]spans.Span       // by client: memo of surelyMajority

	spoils   map[string][]spans.Span   // memo of spoiled
	delaysOf map[string]spans.Measured // memo of delays
}

// locksOf is the locks of a record, in the order of first use.
func locksOf(r *conditions) []*lockState {
	var locks []*lockState
	wires := r.Wires()
	for _, l := range r.Locks {
		c := &lockState{
			conditions: r, lock: l, name: l.Name, wire: wires[l.Name], called: r.Sessions(),
			holds: map[*facts.Session]remembered{}, ready: map[string][]spans.Span{}, noticed: map[string][]spans.Span{},
			surely: map[string][]spans.Span{}, delaysOf: map[string]spans.Measured{},
		}
		c.kept, c.slow = keptOf(r, c.wire)
		locks = append(locks, c)
	}
	if len(locks) < 2 {
		return locks
	}
	of := map[string]*[]*facts.Session{}
	for _, c := range locks {
		of[c.name] = &[]*facts.Session{}
	}
	key, listed := locks[0].name, of[locks[0].name]
	for s := range r.Sessions() {
		if s.Key() != key {
			key, listed = s.Key(), of[s.Key()]
		}
		*listed = append(*listed, s)
	}
	for _, c := range locks {
		c.called = slices.Values(*of[c.name])
	}
	return locks
}

// callers is its sessions in the order of their calls, and who of them waited when.
func (c *lockState) callers() *callers {
	if c.waited == nil {
		c.byClient()
		c.waited = callersOf(c.Facts, c.called, c.names)
	}
	return c.waited
}

// grants is those that got the lock, in the order in which their acquires returned.
func (c *lockState) grants() []*facts.Session {
	if c.granted == nil {
		for s := range c.lock.Sessions() {
			if s.Granted() {
				c.granted = append(c.granted, s)
			}
		}
	}
	return c.granted
}

// grantAfter is the first grant after an instant but to a session, or to its client with the
// same token: who has again what it had shows nobody that it was free. Nil: there is none.
func (c *lockState) grantAfter(at int64, but *facts.Session) *facts.Session {
	grants := c.grants()
	if c.passed == nil {
		c.passed = make([]int, len(grants))
		for i := len(grants) - 1; i >= 0; i-- {
			c.passed[i] = i + 1
			if i+1 < len(grants) && again(grants[i+1], grants[i]) {
				c.passed[i] = c.passed[i+1]
			}
		}
	}
	i := firstOf(grants, func(s *facts.Session) bool { return s.Acquire.Return.T > at })
	if i < len(grants) && again(grants[i], but) {
		i = c.passed[i]
	}
	if i == len(grants) {
		return nil
	}
	return grants[i]
}

// again says whether a grant gives a client what it had by another.
func again(grant, had *facts.Session) bool {
	return grant.Client() == had.Client() && (grant == had || grant.Token() == had.Token())
}

// byClient is the sessions of each client, in the order of their call.
func (c *lockState) byClient() map[string][]*facts.Session {
	if c.clients == nil {
		c.clients = map[string][]*facts.Session{}
		for s := range c.called {
			if _, ok := c.clients[s.Client()]; !ok {
				c.names = append(c.names, s.Client())
			}
			c.clients[s.Client()] = append(c.clients[s.Client()], s)
		}
	}
	return c.clients
}

// waits is where a client was trying to acquire the lock, as far as it has to do with a
// span. Who calls again within a retry delay of a failure is still trying.
func (c *lockState) waits(client string, in spans.Span) []spans.Span {
	var list []spans.Span
	for _, s := range outliving(c.byClient()[client], in.From) {
		if s.Acquire.Call.T >= in.To {
			break
		}
		list = append(list, spans.Wait(c.Facts, s))
	}
	return spans.Joined(list, int64(c.Params.RetryMax))
}

// remembered is a hold that may be asked for again.
type remembered struct {
	hold
	ok   bool  // there was one
	over int64 // the session surely held nothing from then on
}

// hold is a session's, for those who may ask for it often.
func (c *lockState) hold(s *facts.Session) remembered {
	h, ok := c.holds[s]
	if !ok {
		h.hold, h.ok = holdOf(c.Facts, c.keys, s, c.wire)
		h.over = overBy(c.Facts, s, c.wire, h.lapse)
		c.holds[s] = h
	}
	return h
}

// holders is all holds of the lock, in the order in which their acquires were over.
func (c *lockState) holders() []holder {
	if c.had == nil {
		c.had = holdersOf(c.Facts, c.keys, c.called, c.wire)
	}
	return c.had
}

// majority is where a client goes on, and reaches a majority of nodes which no fault
// keeps from giving it this lock, once somebody gives it back.
func (c *lockState) majority(client string) []spans.Span {
	list, ok := c.ready[client]
	if !ok {
		list = c.down.majorityBut(client, c.kept)
		c.ready[client] = list
	}
	return list
}

// available is where it has had time to notice, too.
func (c *lockState) available(client string) []spans.Span {
	list, ok := c.noticed[client]
	if !ok {
		list = spans.Common(c.down.settled(c.down.majority(client)), c.majority(client))
		c.noticed[client] = list
	}
	return list
}

// surelyMajority is where no key that stayed because the host was slow was in its way either.
func (c *lockState) surelyMajority(client string) []spans.Span {
	if len(c.slow) == 0 {
		return c.majority(client)
	}
	list, ok := c.surely[client]
	if !ok {
		list = c.down.majorityBut(client, c.leftOn())
		c.surely[client] = list
	}
	return list
}

// surelyAvailable is where it has had time to notice, too.
func (c *lockState) surelyAvailable(client string) []spans.Span {
	return spans.Common(c.available(client), c.surelyMajority(client))
}

// leftOn returns, by node, the spans in which a key stayed because of a fault or a slow host.
func (c *lockState) leftOn() map[string][]spans.Span {
	left := map[string][]spans.Span{}
	for _, n := range c.Params.Nodes {
		if list := slices.Concat(c.kept[n], c.slow[n]); len(list) > 0 {
			left[n] = spans.Union(list)
		}
	}
	return left
}

// blocked is where keys that faults or a slow host left behind kept a majority from everybody.
func (c *lockState) blocked() []spans.Span {
	left := c.leftOn()
	if len(left) == 0 {
		return nil
	}
	var lists [][]spans.Span
	for _, n := range c.Params.Nodes {
		lists = append(lists, left[n])
	}
	return spans.AtLeast(len(lists)-quorumOf(&c.Params)+1, lists...)
}
