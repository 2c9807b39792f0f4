package main

import (
	"errors"

	"lockpick/scenarios/campaign"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

// withHint adds an exit code and a hint to an error from package campaign or exhaust.
func withHint(err error) error {
	if _, ok := errors.AsType[exhaust.NotReplayedError](err); ok {
		return &failure{err: err, code: outcome.ExitUndecided, hint: "with the times chosen for these steps, the simulation does not reproduce the violation: try --reduce exact, or another number of nodes"}
	}
	e, ok := errors.AsType[*campaign.Error](err)
	if !ok {
		return err
	}
	switch e.Kind {
	case campaign.CorpusFailed:
		if e.Path != "" {
			return usageError(err, "remove it, or name another folder with --corpus")
		}
		return usageError(err, "name another folder with --corpus")
	case campaign.InUse:
		return backendError(err, "wait for the other command, or use another --store")
	case campaign.NotResumable:
		return usageError(err, "remove "+e.Path+", or start over with --seed")
	case campaign.NotMeasurable:
		return usageError(err, "see lockpick assess --help")
	case campaign.NotReproduced:
		return &failure{err: err, code: outcome.ExitBug, hint: "this is a bug in lockpick"}
	}
	return storeError(err)
}
