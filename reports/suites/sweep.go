package suites

import (
	"path/filepath"
	"strings"

	"lockpick/harness/owned"
)

// Sweep removes what killed lockpicks have left in a store of files and folders that were
// not whole: beside runs and suites, and in them.
func Sweep(store string) error {
	_, err := owned.Unfinished.SweepTree(store, func(path string) bool {
		name := filepath.Base(path)
		switch strings.Count(filepath.ToSlash(path), "/") {
		case 0:
			return !strings.HasPrefix(name, ".")
		case 1:
			return runName.MatchString(name) || suiteName.MatchString(name)
		}
		return name == "figures"
	})
	return err
}
