package real

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var _ nemesis.Shaper = (*Network)(nil)

// Shape changes the traffic of a link, and sees how long PING takes, where one
// PING can show it.
func (n *Network) Shape(name string, t nemesis.Traffic) (string, error) {
	l, err := n.link("shape", name)
	if err != nil {
		return "", err
	}
	disturbed := l.Disturbed()
	l.Shape(t)
	if !t.All() || t.Lose || disturbed {
		return t.String(), nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, slowly)
	defer cancel()
	text, asked := echo(t), "PING"
	began := proc.TrueClock()
	if stored(n, l) {
		text, asked = "", word(n, l)
		err = n.Store.Ask(ctx, l.Addr())
	} else {
		_, err = proc.Ask(ctx, l.Addr(), "PING", text)
	}
	took := proc.TrueClock() - began
	least := leastTrip(t, len(text))
	switch {
	case ctx.Err() != nil && n.ctx.Err() == nil:
		return fmt.Sprintf("%v; %s got no answer within %v", t, asked, slowly), nil
	case err != nil:
		return fmt.Sprintf("%v; the node is down: %v", t, err), nil
	case took < least:
		return "", errors.Join(fmt.Errorf("shape %s: %s was answered after %v, and not after %v at the least", name, asked, took, least), undo(n, name, t))
	}
	return fmt.Sprintf("%v; %s of %d bytes was answered after %v", t, asked, len(text), took.Round(10*time.Microsecond)), nil
}

func undo(n *Network, name string, t nemesis.Traffic) error {
	if _, err := n.Unshape(name, t); !errors.Is(err, nemesis.ErrIdle) {
		return err
	}
	return nil
}

// echo is what PING is to bring back: enough to take a while where bytes are counted.
func echo(t nemesis.Traffic) string {
	const while = 50 // for 20 ms, and at most a mebibyte
	return strings.Repeat("x", max(1, min(t.Bandwidth/while, 1<<20)))
}

// leastTrip is the least time that PING and its answer can take.
func leastTrip(t nemesis.Traffic, bytes int) time.Duration {
	ways := 1
	if t.Way == "" {
		ways = 2
	}
	return time.Duration(ways) * (t.DelayMin + t.Takes(bytes))
}

// Unshape ends that, tells what it hit, and sees that PING gets an answer.
func (n *Network) Unshape(name string, t nemesis.Traffic) (string, error) {
	l, err := n.link("unshape", name)
	if err != nil {
		return "", err
	}
	met, hit, felt, err := l.Unshape(t)
	if err != nil {
		return "", err
	}
	back, err := n.answers(l)
	if err != nil {
		return "", fmt.Errorf("unshape %s: %w", name, err)
	}
	back = fmt.Sprintf("it hit %d of %d messages; %s", hit, met, back)
	if !felt {
		if hit > 0 {
			back = fmt.Sprintf("none was late by as much as %v; %s", nemesis.Felt, back)
		}
		return back, nemesis.ErrIdle
	}
	return back, nil
}
