package main

import (
	"errors"

	"lockpick/scenarios/campaign"
	"lockpick/scenarios/exhaust"
	"lockpick/scenarios/outcome"
)

// explained gives an error of a campaign the exit code that it calls for, and says what to do about it.
func explained(err error) error {
	if _, ok := errors.AsType[exhaust.NotReplayed](err); ok {
		return &failure{err: err, code: outcome.ExitUndecided, hint: "the instants that were chosen for these steps do not show it: try --reduce exact, or another number of nodes"}
	}
	e, ok := errors.AsType[*campaign.Error](err)
	if !ok {
		return err
	}
	switch e.Kind {
	case campaign.CorpusFailed:
		if e.Path != "" {
			return usage(err, "remove it, or name another folder with --corpus")
		}
		return usage(err, "name another folder with --corpus")
	case campaign.Taken:
		return unable(err, "wait for it, or give this one another --store")
	case campaign.NotResumable:
		return usage(err, "remove "+e.Path+", or begin anew with --seed")
	case campaign.NotMeasurable:
		return usage(err, "see lockpick envelope --help")
	case campaign.NotRepeated:
		return &failure{err: err, code: outcome.ExitBug, hint: "this is a bug in lockpick"}
	}
	return noStore(err)
}
