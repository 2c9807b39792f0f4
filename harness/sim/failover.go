package sim

import (
	"fmt"
	"syscall"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

var _ nemesis.FailOverer = (*cluster)(nil)

// replica is a Redis server that replicates a master and runs on a separate machine. The master
// sends it each change asynchronously.
type replica struct {
	net         *network
	master      *server
	link        string // such as "n3-replica"
	slot        slot
	clock       *node.Clock
	node        *node.Node
	runID       string
	isCut       bool
	queue       []*update
	lastArrival int64 // arrival time of the latest update
	digest      uint64
}

// update is a change sent to the replica.
type update struct {
	record  node.Record
	waiting bool // arrived while the link is cut, or behind such an update
}

func newReplica(master *server, sl slot, clock *node.Clock) *replica {
	r := &replica{net: master.net, master: master, link: nemesis.LinkName(master.name, nemesis.Replica), slot: sl, clock: clock}
	r.runID = runID(master.net.seed, r.link, 1)
	r.node = node.New(node.Config{RunID: r.runID, ProcessID: 2000, Clock: clock})
	return r
}

func (r *replica) send(record node.Record) {
	u := &update{record: record}
	r.queue = append(r.queue, u)
	r.dispatch(u)
}

func (r *replica) dispatch(u *update) {
	u.waiting = false
	now := r.net.now()
	content := uint64(len(r.queue))
	u.record.WriteHash(func(s string) { content = hashWords(content, hashBytes(r.net.tokens.placeholder(s))) })
	delay := int64(minLatency) + int64(hashWords(r.net.seed, hashBytes(r.link), uint64(now), content)%uint64(latencySpread))
	r.lastArrival = r.net.at(r.slot, max(now+delay, r.lastArrival+1), func() { r.arrive(u) })
	r.digest += hashWords(uint64(now), uint64(r.lastArrival), content)
}

// arrive applies a change and the changes waiting behind it, unless the link is cut.
func (r *replica) arrive(u *update) {
	u.waiting = true
	for !r.isCut && len(r.queue) > 0 && r.queue[0].waiting && r.master.replica == r {
		r.node.Apply(r.queue[0].record)
		r.queue = r.queue[1:]
	}
}

// resync sends a restarted master's full data set and discards changes still pending from the
// previous process, since a replica that connects to a restarted master starts over.
func (r *replica) resync() {
	r.queue = nil
	r.send(r.master.node.Dump())
}

// cutOff cuts the link, which has the same effect in every mode: once the link is restored, the
// replica requests the changes it missed.
func (r *replica) cutOff(way string) (string, error) {
	switch {
	case r.master.replica != r:
		return "", fmt.Errorf("cut %s: the replica has taken its master's place", r.link)
	case r.isCut:
		return "", fmt.Errorf("cut %s: it is cut already", r.link)
	case way == nemesis.Reply:
		return "", fmt.Errorf("cut %s: a replica's replies have no effect: cut requests, or both directions", r.link)
	}
	r.isCut = true
	return r.describeLag(), nil
}

func (r *replica) mend() (string, error) {
	if !r.isCut {
		return "", fmt.Errorf("restore %s: it isn't cut", r.link)
	}
	r.isCut = false
	if r.master.replica != r {
		return "the replica took its master's place meanwhile", nil
	}
	for _, u := range r.queue {
		if u.waiting {
			r.dispatch(u)
		}
	}
	return r.describeLag(), nil
}

// describeLag describes how far the replica lags behind its master.
func (r *replica) describeLag() string {
	keys, _ := r.node.Do("DBSIZE")
	linkState := "up"
	if r.isCut {
		linkState = "down"
	}
	return fmt.Sprintf("%s: link %s, keys of the replica: %v, changes that it lacks: %d", r.link, linkState, keys, len(r.queue))
}

// FailOver kills a node's master, and its replica takes over the address. The new master stays on
// its machine and has no replica itself. Its disk holds the changes that it had received.
func (c *cluster) FailOver(target string) (string, error) {
	c.waitTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.failoverTarget(target)
	if err != nil {
		return "", err
	}
	oldIdentity := s.identity()
	s.stop(syscall.ECONNRESET)
	return fmt.Sprintf("%s was killed; %s", oldIdentity, s.promote()), nil
}

// promote replaces a dead master with its replica.
func (s *server) promote() (readBack string) {
	r := s.replica
	r.node.Close()
	s.replica, s.promotedReplica, s.clock, s.stalledSyncs = nil, r, r.clock, nil
	data := r.node.Dump()
	s.startCount++
	if s.disk != nil {
		s.disk = s.disk.Replacement(data)
	}
	s.runID = r.runID
	s.startNode(node.Config{RunID: r.runID, ProcessID: 2000, Clock: s.clock, Monotonic: s.monotonic, Disk: s.disk, Unsupported: s.countUnsupported})
	s.node.Apply(data)
	s.recordRestart(history.Failover)
	return fmt.Sprintf("now %s, changes not replicated: %d; PING: %s", s.identity(), len(r.queue), s.ping())
}

var _ nemesis.SentinelFailOverer = (*cluster)(nil)

// sentinels monitor the network's masters.
type sentinels struct {
	net       *network
	downAfter time.Duration              // how long a master must be silent to count as down
	replaced  map[string]*replacedMaster // replaced masters, by node
}

// replacedMaster is a master whose replica took its place.
type replacedMaster struct {
	runID string
	clock *node.Clock
	disk  *node.Disk  // disk of a killed master; nil: no persistence
	data  node.Record // data of a stopped master
}

// electionTime returns how long sentinels take to promote the replica of a master that is down and
// to recognize it as a master. Redis Sentinel waits for a random time of up to SENTINEL_MAX_DESYNC,
// one second, to avoid split votes, and queries the replica's role every second (src/sentinel.c,
// sentinelStartFailover and sentinelSendPeriodicCommands).
func (q *sentinels) electionTime(target string) time.Duration {
	return time.Second + time.Duration(hashWords(q.net.seed, hashBytes("election"), hashBytes(target))%uint64(time.Second))
}

// FailOverBySentinel kills or stops a node's master and waits until the sentinels fail over.
//
//	master ──✗ killed or stopped               the replica is promoted
//	          ├──── down-after ────┬── election ──┤
//
// The model is simplified: sentinels are not machines, so they always form a majority, reach every
// server and agree in the first election.
func (q *sentinels) FailOverBySentinel(target string, stop bool) (string, error) {
	q.net.mu.Lock()
	s, err := q.net.failoverTarget(target)
	if err == nil && s.paused {
		err = fmt.Errorf("fail over %s: its master is stopped already", target)
	}
	if err != nil {
		q.net.mu.Unlock()
		return "", err
	}
	oldIdentity, r, oldStartCount, outcome := s.identity(), s.replica, s.startCount, "was killed"
	old := &replacedMaster{runID: s.runID, clock: s.clock, disk: s.disk}
	if stop {
		s.paused, outcome = true, "was stopped"
	} else {
		s.stop(syscall.ECONNRESET)
	}
	q.net.mu.Unlock()
	delay := q.downAfter + q.electionTime(target)
	q.net.sleep(s.slot, q.net.now()+int64(delay))
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	if s.replica != r || s.startCount != oldStartCount || s.node != nil && !s.paused {
		return "", fmt.Errorf("fail over %s: its sentinels promoted no replica because its master came back", target)
	}
	if s.node != nil {
		old.disk, old.data = nil, s.node.Dump()
		s.stop(syscall.ECONNRESET)
	}
	q.replaced[target] = old
	return fmt.Sprintf("promoted by its sentinels after %v: %s; %s %s", delay.Round(time.Millisecond), s.promote(), oldIdentity, outcome), nil
}

// ReturnMaster brings an old master back, and the sentinels at once make it a replica of the new
// one. Clients can't reach the old master any more, since the new one has taken over its address.
func (q *sentinels) ReturnMaster(target string) (string, error) {
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	s, err := q.net.node(target)
	replaced := q.replaced[target]
	switch {
	case err != nil:
		return "", fmt.Errorf("return the old master of %s: %w", target, err)
	case replaced == nil:
		return "", fmt.Errorf("return the old master of %s: its sentinels have not replaced a master", target)
	}
	delete(q.replaced, target)
	old := node.New(node.Config{RunID: replaced.runID, ProcessID: 1000, Clock: replaced.clock, Disk: replaced.disk})
	defer old.Close()
	if replaced.data != nil {
		old.Apply(replaced.data)
	}
	oldKeys, err := old.Do("DBSIZE")
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", target, err)
	}
	if s.node == nil {
		return fmt.Sprintf("the old master is back (keys: %v), and finds nobody to follow", oldKeys), nil
	}
	old.Apply(s.node.Dump())
	newKeys, err := old.Do("DBSIZE")
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", target, err)
	}
	return fmt.Sprintf("the old master is back and follows the new one (keys: %v, now %v)", oldKeys, newKeys), nil
}
