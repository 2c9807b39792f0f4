package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
)

// lockLack is what a scenario lacks that isn't for the lock that was asked for.
const lockLack = "lock"

// unfit is a scenario that isn't for a lock, and why.
type unfit struct {
	scenario.Scenario
	why error
}

// lacks is why the scenario is skipped, as any other reason is told.
func (u unfit) lacks() []harness.Capability {
	return []harness.Capability{{Name: lockLack, Reason: u.why.Error()}}
}

// otherLock takes the override lock.kind as what it is: a wish to see another lock under the
// scenarios, which a plain override would put where it does not fit. The kind that makes
// mistakes needs one named, and stays an override.
func (f *runFlags) otherLock() error {
	f.sets = slices.DeleteFunc(f.sets, func(set string) bool {
		key, kind, _ := strings.Cut(set, "=")
		kind = strings.TrimSpace(kind)
		if _, known := kinds.All[kind]; strings.TrimSpace(key) != "lock.kind" || !known || kind == "broken" {
			return false
		}
		f.lock = kind
		return true
	})
	switch _, known := kinds.All[f.lock]; {
	case f.lock == "" || known && f.lock != "broken":
		return nil
	case f.lock == "broken":
		return usage(errors.New("--lock broken makes no sense without a mistake"), "as in --set lock.kind=broken --set lock.mistake=plain-del")
	}
	return usage(fmt.Errorf("no lock kind %q", f.lock), "one of "+strings.Join(kinds.Names(), ", ")+meant(f.lock, kinds.Names()))
}

// withLock puts another lock under the scenarios, where one was asked for, and says which
// ones aren't for it.
func (f *runFlags) withLock(chosen []pick) (fit []pick, not []unfit) {
	if f.lock == "" {
		return chosen, nil
	}
	for _, p := range chosen {
		s, err := p.With(f.lock, kinds.All[f.lock])
		if err == nil {
			err = s.Check(known())
		}
		if err != nil {
			not = append(not, unfit{p.Scenario, err})
			continue
		}
		p.Scenario = s
		fit = append(fit, p)
	}
	return fit, not
}
