//go:build !linux

package adapter

import (
	"context"
	"errors"
)

// Replaced needs Linux.
func Replaced(int, string) []string { return nil }

// Smoke needs Linux.
func Smoke(context.Context, string, string, []string, func(Step)) (passed bool, err error) {
	return false, errors.New("adapters need real processes, and those need Linux")
}
