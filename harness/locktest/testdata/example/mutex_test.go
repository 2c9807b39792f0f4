package mutex

import (
	"testing"

	"lockpick/harness/lock"
	"lockpick/harness/locktest"
)

var (
	good = lock.Kind{Name: "mutex", New: New(false), OneNode: true}
	bad  = lock.Kind{Name: "careless", New: New(true), OneNode: true}
)

func TestMain(m *testing.M) { locktest.Process(m, good, bad) } // for TestOnServers alone

func TestLock(t *testing.T) { locktest.Run(t, good, locktest.Options{}) }

func TestCareless(t *testing.T) { locktest.Run(t, bad, locktest.Options{}) }

func TestOnServers(t *testing.T) {
	locktest.Run(t, good, locktest.Options{Backend: locktest.Servers, Scenarios: []string{"baseline/"}})
}
