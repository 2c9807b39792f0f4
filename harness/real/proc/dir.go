package proc

import (
	"fmt"
	"path/filepath"

	"lockpick/harness/owned"
)

// MakeDir makes a temporary folder below dir, and removes before what killed lockpicks
// have left there. Its name tells whose it is, so that it is removed in its turn.
func MakeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir) // who gets it works elsewhere
	if err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if _, err := Sweep(dir); err != nil {
		return "", err
	}
	own, err := owned.Temporary.MakeDir(dir)
	if err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	return own, nil
}

// Sweep removes the folders below dir that dead owners left, with what is mounted there,
// and ends their processes, should any still run. It returns what it removed.
func Sweep(dir string) ([]string, error) {
	k := owned.Temporary
	k.Before = putAway
	return k.Sweep(dir)
}
