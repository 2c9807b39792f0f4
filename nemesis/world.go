package nemesis

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// World is what a plan is drawn for.
type World struct {
	Clients  []string      // that run through the safety phase
	Begin    time.Duration // when they have been started
	Nodes    []string
	Resource string
	Linked   func(client, node string) bool // whether they have a link
	Limit    time.Duration
	TTL      time.Duration
	Margin   time.Duration // what the lock allows clocks to differ by in a TTL
	Persists bool          // nodes keep what they are told on disk
	Durable  bool          // and sync each write before they answer
	Dice
}

// Dice give a number for a name, the same for the same seed.
type Dice func(names ...string) uint64

func (d Dice) chance(names ...string) float64 { return unit(d(names...)) }

func (d Dice) upto(n int, names ...string) int { return int(d.chance(names...) * float64(n)) }

func (d Dice) even(s Span, names ...string) time.Duration {
	return s.Min + time.Duration(d.chance(names...)*float64(s.Max-s.Min))
}

func (d Dice) logarithmic(s Span, names ...string) time.Duration { return s.Heavy(d(names...)) }

// middle is a span's geometric mean: as many orders of magnitude lie on either side.
func middle(s Span) time.Duration {
	return time.Duration(math.Sqrt(float64(s.Min)) * math.Sqrt(float64(s.Max)))
}

func (d Dice) magnitude(least, most float64, names ...string) float64 {
	return magnitude(least, most, d.chance(names...))
}

// shuffled is the same things in another order.
func (d Dice) shuffled(things []string, names ...string) []string {
	order := map[string]uint64{}
	for _, t := range things {
		order[t] = d(slices.Concat(names, []string{t})...)
	}
	return slices.SortedFunc(slices.Values(things), func(a, b string) int { return cmp.Compare(order[a], order[b]) })
}

// some are one of the things at least, and perhaps all.
func (d Dice) some(things []string, names ...string) []string {
	if len(things) == 0 {
		return nil
	}
	return d.shuffled(things, names...)[:1+d.upto(len(things), slices.Concat(names, []string{"many"})...)]
}
