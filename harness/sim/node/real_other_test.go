//go:build !linux

package node

import "testing"

func newReal(t *testing.T, _ *Story) Server {
	t.Skip("redis-server runs on Linux only")
	return nil
}
