package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"lockpick/reports/suites"
)

// reportSuite draws a suite again from its outcome.json, without judging its runs
// anew; dir is "" for the latest of the store. To judge a run again is check's.
func (a *app) reportSuite(dir string) error {
	store := defaultStore()
	if dir == "" {
		stored := suites.Stored(store)
		if len(stored) == 0 {
			return usage(fmt.Errorf("find the latest suite: there is none in %s", store),
				"run several scenarios first, name a run's directory, or set LOCKPICK_STORE")
		}
		dir = stored[0]
	}
	s, err := suites.Draw(dir)
	if err != nil {
		return usage(err, "name a directory of a store's suites, as in "+filepath.Join(store, suites.Folder, "latest"))
	}
	_, err = fmt.Fprintf(a.out, "%s\nreport: %s (drawn from stored outcomes)\n", s.Headline(), filepath.Join(dir, suites.PageFile))
	return errors.Join(err, suites.Index(s.Store))
}
