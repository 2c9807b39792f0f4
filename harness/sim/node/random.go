package node

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// math.random starts from the same seed in each life of a node, and is the
// lrand48 of POSIX, as in Redis.

func drand48Seed(s uint32) uint64 { return uint64(s)<<16 | 0x330e }

// draw is math.random.
func (in *interpreter) draw(l *lua.LState) int {
	in.random = (in.random*0x5deece66d + 0xb) & (1<<48 - 1)
	r := float64((in.random>>17)%math.MaxInt32) / math.MaxInt32
	switch l.GetTop() {
	case 0:
		l.Push(lua.LNumber(r))
	case 1:
		above := l.CheckNumber(1)
		if above < 1 {
			l.ArgError(1, "interval is empty")
		}
		l.Push(lua.LNumber(math.Floor(r*float64(above)) + 1))
	default:
		from, to := float64(l.CheckNumber(1)), float64(l.CheckNumber(2))
		if from > to {
			l.ArgError(2, "interval is empty")
		}
		l.Push(lua.LNumber(math.Floor(r*(to-from+1)) + from))
	}
	return 1
}

// seed is math.randomseed.
func (in *interpreter) seed(l *lua.LState) int {
	in.random = drand48Seed(uint32(int64(l.CheckNumber(1))))
	return 0
}
