//go:build long

package broken

import "testing"

// Each lock makes its own mistake and no other.
func TestExactlyOneMistake(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		t.Run(m.Name, func(t *testing.T) { // closes the locks at its end
			n := nodes{t, n.addrs, n.clients}
			for name, makes := range experiments {
				if got := makes(n, m.Name); got != (name == m.Name) {
					t.Errorf("lock with the mistake %s makes the mistake %s: %v", m.Name, name, got)
				}
			}
		})
	}
}
