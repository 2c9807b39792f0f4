package exhaust

import "time"

// instant is a moment whose place is looked for.
type instant int

// instants are moments that lie at least so far apart: a system of difference constraints.
type instants struct {
	at     []time.Duration
	limits []limit
}

// limit says that to is at least so much later than from, or where that is negative, at most so
// much earlier.
type limit struct {
	from, to instant
	least    time.Duration
}

func (s *instants) add() instant {
	s.at = append(s.at, 0)
	return instant(len(s.at) - 1)
}

func (s *instants) least(from, to instant, d time.Duration) {
	s.limits = append(s.limits, limit{from, to, d})
}

// most says that to is at most so much later than from.
func (s *instants) most(from, to instant, d time.Duration) { s.least(to, from, -d) }

func (s *instants) exact(from, to instant, d time.Duration) {
	s.least(from, to, d)
	s.most(from, to, d)
}

// solve finds the earliest instants, none of them negative, and says whether there are any: the
// longest ways through the limits, by Bellman and Ford.
func (s *instants) solve() bool {
	clear(s.at)
	for range len(s.at) + 1 {
		moved := false
		for _, l := range s.limits {
			if t := s.at[l.from] + l.least; s.at[l.to] < t {
				s.at[l.to], moved = t, true
			}
		}
		if !moved {
			return true
		}
	}
	return false
}
