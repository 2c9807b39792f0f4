//go:build !linux

package adapter

import (
	"context"
	"errors"
)

// Replaced needs Linux.
func Replaced(int, string) []string { return nil }

// Try needs Linux.
func Try(context.Context, string, string, []string, func(Check)) (int, error) {
	return 0, errors.New("adapters need real processes, and those need Linux")
}
