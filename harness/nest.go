package harness

import (
	"fmt"
	"sync"

	"lockpick/nemesis"
)

// nested is a fault that is in force on one target, perhaps for several steps. Each
// has a lock of its own: one that waits for a node which is stopped must not keep the
// end of the stop waiting.
type nested struct {
	mu    sync.Mutex
	fault nemesis.Fault
	times int // 0: it isn't in force
	heal  func() (string, error)
}

// nests are the faults that may be in force for several steps, by kind and target.
type nests struct {
	cluster Cluster

	mu sync.Mutex
	of map[string]*nested
}

// inject injects a fault, unless the same is in force on the target already: then
// that one lasts until both have ended. Two faults of one kind that differ can't
// be in force on one target at once.
func (all *nests) inject(kind nemesis.Kind, f nemesis.Fault, target string) (nemesis.Effect, error) {
	if !kind.Nests {
		return kind.Inject(all.cluster, f, target)
	}
	n := all.at(kind.Recorded() + " " + target)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.times == 0:
		x, err := kind.Inject(all.cluster, f, target)
		if err != nil || x.Heal == nil {
			return x, err
		}
		n.fault, n.times, n.heal = f, 1, x.Heal
		x.Heal = n.leave
		return x, nil
	case n.fault.Mode != f.Mode || n.fault.Way != f.Way:
		return nemesis.Effect{}, fmt.Errorf("%s %s: it is in force already, in another way", kind.Name, target)
	}
	n.times++
	return nemesis.Effect{ReadBack: "it was in force already", Heal: n.leave}, nil
}

func (all *nests) at(name string) *nested {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.of[name] == nil {
		all.of[name] = &nested{}
	}
	return all.of[name]
}

// leave ends one of a target's equal faults, and with the last the fault itself.
func (n *nested) leave() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.times--; n.times > 0 {
		return "it stays in force for another step", nil
	}
	return n.heal()
}
