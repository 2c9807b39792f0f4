package mutex

import (
	"flag"
	"testing"

	"lockpick/harness/lock"
	"lockpick/harness/locktest"
)

var (
	careless = flag.Bool("careless", false, "make a mistake, to see that the test finds it")
	servers  = flag.Bool("servers", false, "run on redis-server processes")
)

var kind = lock.Kind{Name: "mutex", OneNode: true, New: func(env lock.Env) (lock.Lock, error) {
	l, err := New(env)
	l.(*mutex).careless = *careless
	return l, err
}}

func TestMain(m *testing.M) { locktest.Process(m, kind) } // only needed with -servers

func TestLock(t *testing.T) {
	o := locktest.Options{}
	if *servers {
		o = locktest.Options{Backend: locktest.Servers, Scenarios: []string{"foreign-release/"}}
	}
	locktest.Run(t, kind, o)
}
