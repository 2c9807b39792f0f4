package network

import (
	"lockpick/harness/real/life"
	"lockpick/harness/real/link"
)

// Hears lets the lives of a run's nodes hear what passes its links: see link.Mesh.
func Hears(l *life.Lives) func(name, node, from string) link.Witness {
	return func(name, node, from string) link.Witness {
		if s := l.Sender(name, node, from); s != nil {
			return s
		}
		return nil
	}
}
