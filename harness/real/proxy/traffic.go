package proxy

import (
	"fmt"
	"slices"
	"time"

	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// shape is something that a link does to its traffic, and what it met.
type shape struct {
	nemesis.Traffic
	met, hit int                      // messages with lock commands
	felt     bool                     // one of them was lost, or late by enough to notice
	busy     map[string]time.Duration // of each direction: when the last byte that has its turn is through
}

// Shape changes the traffic until Unshape. Several shapes may be in force.
func (l *Link) Shape(t nemesis.Traffic) {
	l.update(func() { l.shapes = append(l.shapes, &shape{Traffic: t, busy: map[string]time.Duration{}}) })
}

// Unshape ends a shape and returns how many messages with lock commands it met,
// and hit, and whether anybody can have felt it. The connections that have lost any are reset.
func (l *Link) Unshape(t nemesis.Traffic) (met, hit int, felt bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.shapes, func(s *shape) bool { return s.Traffic == t })
	if i < 0 {
		return 0, 0, false, fmt.Errorf("unshape link %s: its traffic isn't shaped so", l.name)
	}
	s := l.shapes[i]
	l.shapes = slices.Delete(l.shapes, i, i+1)
	if t.Lose {
		l.resetBroken()
	}
	l.wake()
	return s.met, s.hit, s.felt, nil
}

// Disturbed says whether anything is done to the link's traffic, so that a PING
// may fare as it likes.
func (l *Link) Disturbed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.shapes) > 0 || l.cut != (cut{}) || l.gates > 0
}

// meet draws what becomes of a piece that has come in. The link's mutex is held.
func (l *Link) meet(of string, p *piece, commands []*resp.Command, now time.Duration) {
	p.locks = l.unread || slices.ContainsFunc(commands, func(c *resp.Command) bool { return c.Op != "" })
	for _, s := range l.shapes {
		if !s.On(of) {
			continue
		}
		hit := s.Hits(l.random.Uint64())
		if p.locks {
			s.met++
			if hit {
				s.hit++
			}
		}
		switch {
		case !hit:
		case s.Lose:
			p.lost = true
			s.felt = s.felt || p.locks
		case s.DelayMax > 0:
			late := s.Late(l.random.Uint64())
			p.due = max(p.due, now) + late
			s.felt = s.felt || p.locks && late >= nemesis.Felt
		}
	}
}

// turn is when a piece that could go now is through, where only so many bytes
// pass. The link's mutex is held.
func (l *Link) turn(of string, p *piece, now time.Duration) (due time.Duration) {
	for _, s := range l.shapes {
		if s.Bandwidth > 0 && s.On(of) {
			s.busy[of] = max(now, s.busy[of]) + s.Takes(len(p.data))
			due = max(due, s.busy[of])
			s.felt = s.felt || p.locks && s.busy[of]-now >= nemesis.Felt
		}
	}
	return due
}
