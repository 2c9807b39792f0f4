package sim

import (
	"fmt"
	"syscall"
	"time"

	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

var _ nemesis.SentinelFailOverer = (*cluster)(nil)

// sentinels watch over the masters of a network.
type sentinels struct {
	net       *network
	downAfter time.Duration      // their patience
	formers   map[string]*former // masters whose place a replica has taken, by node
}

// former is a master whose place its replica has taken.
type former struct {
	runID string
	clock *node.Clock
	disk  *node.Disk  // of one that was killed; nil: it keeps nothing
	kept  node.Record // what one that was stopped had
}

// election is how long it takes sentinels that have lost a master to promote its
// replica and see that it is one. Redis's sentinels wait for a random time of up to
// SENTINEL_MAX_DESYNC, one second, to let each other go first, and ask the replica for
// its role each second (src/sentinel.c, sentinelStartFailover and sentinelSendPeriodicCommands).
func (q *sentinels) election(target string) time.Duration {
	return time.Second + time.Duration(mix(q.net.seed, sum("election"), sum(target))%uint64(time.Second))
}

// FailOverBySentinel takes a node's master away and waits for its sentinels.
//
//	master ──✗ killed or stopped               the replica is promoted
//	          ├──── down-after ────┬── election ──┤
//
// It is a model: sentinels are no machines here, so that they always are a majority,
// reach everybody and agree in the first election.
func (q *sentinels) FailOverBySentinel(target string, stop bool) (string, error) {
	q.net.mu.Lock()
	s, err := q.net.failing(target)
	if err == nil && s.paused {
		err = fmt.Errorf("fail over %s: its master is stopped already", target)
	}
	if err != nil {
		q.net.mu.Unlock()
		return "", err
	}
	before, r, lives, became := s.identity(), s.replica, s.lives, "was killed"
	f := &former{runID: s.runID, clock: s.clock, disk: s.disk}
	if stop {
		s.paused, became = true, "was stopped"
	} else {
		s.end(syscall.ECONNRESET)
	}
	q.net.mu.Unlock()
	took := q.downAfter + q.election(target)
	q.net.sleep(s.slot, q.net.now()+int64(took))
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	if s.replica != r || s.lives != lives || s.node != nil && !s.paused {
		return "", fmt.Errorf("fail over %s: its sentinels promoted nobody, for its master did not stay away", target)
	}
	if s.node != nil {
		f.disk, f.kept = nil, s.node.Dump()
		s.end(syscall.ECONNRESET)
	}
	q.formers[target] = f
	return fmt.Sprintf("promoted by its sentinels after %v: %s; %s %s", took.Round(time.Millisecond), s.promote(), before, became), nil
}

// ReturnMaster brings an old master back, and its sentinels make it follow the new
// one, here at once. No client has its address any more.
func (q *sentinels) ReturnMaster(target string) (string, error) {
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	s, err := q.net.node(target)
	f := q.formers[target]
	switch {
	case err != nil:
		return "", fmt.Errorf("return the old master of %s: %w", target, err)
	case f == nil:
		return "", fmt.Errorf("return the old master of %s: its sentinels have replaced none", target)
	}
	delete(q.formers, target)
	old := node.New(node.Config{RunID: f.runID, ProcessID: 1000, Clock: f.clock, Disk: f.disk})
	defer old.Close()
	if f.kept != nil {
		old.Apply(f.kept)
	}
	had, err := old.Do("DBSIZE")
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", target, err)
	}
	if s.node == nil {
		return fmt.Sprintf("the old master is back (keys: %v), and finds nobody to follow", had), nil
	}
	old.Apply(s.node.Dump())
	has, err := old.Do("DBSIZE")
	if err != nil {
		return "", fmt.Errorf("return the old master of %s: %w", target, err)
	}
	return fmt.Sprintf("the old master is back and follows the new one (keys: %v, now %v)", had, has), nil
}
