//go:build !linux

package process

import "context"

// answers is never asked: canRun has said no before.
func (b *Backend) answers(context.Context) error { return nil }

// tryDisk is likewise never asked.
func (b *Backend) tryDisk() error { return nil }

// tellsLife is likewise never asked.
func (b *Backend) tellsLife(context.Context) error { return nil }

// hasSentinels is likewise never asked.
func (b *Backend) hasSentinels(context.Context) error { return nil }
