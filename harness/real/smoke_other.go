//go:build !linux

package real

import (
	"context"
	"errors"
)

// ReplacedCommand always returns nil, because replaced processes can be detected only on Linux.
func ReplacedCommand(int, string) []string { return nil }

// SmokeTest always fails, because it needs Linux.
func SmokeTest(context.Context, string, string, []string, func(SmokeStep)) (passed bool, err error) {
	return false, errors.New("adapters run on the process backend, which needs Linux")
}
