//go:build !linux

package real

import (
	"context"
	"errors"
)

// ReplacedCommand needs Linux.
func ReplacedCommand(int, string) []string { return nil }

// SmokeTest needs Linux.
func SmokeTest(context.Context, string, string, []string, func(SmokeStep)) (passed bool, err error) {
	return false, errors.New("adapters need real processes, and those need Linux")
}
