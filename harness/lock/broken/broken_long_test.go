//go:build long

package broken

import "testing"

// Each lock makes its own mistake and no other.
func TestExactlyOneMistake(t *testing.T) {
	n := startNodes(t)
	for _, m := range Mistakes() {
		t.Run(m.Name, func(t *testing.T) { // the subtest closes its locks
			n := nodes{t, n.addrs, n.clients}
			for name, makesMistake := range experiments {
				if got := makesMistake(n, m.Name); got != (name == m.Name) {
					t.Errorf("lock with mistake %q makes mistake %q: %v", m.Name, name, got)
				}
			}
		})
	}
}
