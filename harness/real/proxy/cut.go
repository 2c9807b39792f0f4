package proxy

import (
	"fmt"

	"lockpick/nemesis"
)

// cut is how a link is cut. The zero value: it isn't.
type cut struct{ mode, way string }

// blocks says whether what travels a direction doesn't arrive.
func (c cut) blocks(of string) bool {
	return (c.mode == nemesis.CutHold || c.mode == nemesis.CutDrop) && (c.way == "" || c.way == of)
}

// Cut cuts the link until Mend, in one of the modes of a cut; "" holds. Where it
// holds or drops, connects succeed meanwhile, as far as the node lives.
func (l *Link) Cut(mode, way string) error {
	if mode == "" {
		mode = nemesis.CutHold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != (cut{}) {
		return fmt.Errorf("cut link %s: it is cut already", l.name)
	}
	switch mode {
	case nemesis.CutHold, nemesis.CutDrop:
	case nemesis.CutReset, nemesis.CutRefuse:
		if way != "" {
			return fmt.Errorf("cut link %s: mode %s has no one way", l.name, mode)
		}
	default:
		return fmt.Errorf("cut link %s: unknown mode %q", l.name, mode)
	}
	if mode == nemesis.CutRefuse {
		release, err := occupy(l.Addr())
		if err != nil {
			return fmt.Errorf("cut link %s: %w", l.name, err)
		}
		l.refusing = release
		l.listener.Close()
	}
	l.cut = cut{mode, way}
	if mode == nemesis.CutReset {
		for c := range l.conns {
			c.reset()
		}
	}
	l.wake()
	return nil
}

// Mend delivers what the cut has kept, in order, and resets the connections that
// it made lose something.
func (l *Link) Mend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.cut.mode == nemesis.CutRefuse {
		ln, err := listen(l.Addr())
		if err != nil {
			return fmt.Errorf("mend link %s: %w", l.name, err)
		}
		l.accept(ln)
		release := l.refusing
		l.refusing = nil
		if err := release(); err != nil {
			return fmt.Errorf("mend link %s: %w", l.name, err)
		}
	}
	l.cut = cut{}
	l.resetBroken()
	l.wake()
	return nil
}
