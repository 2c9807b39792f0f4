package shapes

import (
	"encoding/hex"
	"slices"
	"strings"

	"lockpick/harness/lock"
	"lockpick/redlock"
)

// instance is one key on one server, which most of the others change in one thing.
var instance = design{set: set, del: compareAndDelete, extend: compareAndExpire, quorum: atLeast(func(int) int { return 1 })}

// votes is the same on several.
var votes = instance.but(func(d *design) { d.quorum = atLeast(redlock.Quorum) })

func (d design) but(change func(*design)) design {
	change(&d)
	return d
}

// atLeast is a quorum of so many of all nodes.
func atLeast(of func(n int) int) func([]redlock.Answer) bool {
	return func(all []redlock.Answer) bool { return redlock.Count(all).Yes >= of(len(all)) }
}

// ofThoseThatAnswer is a quorum of those that gave an answer.
func ofThoseThatAnswer(of func(n int) int) func([]redlock.Answer) bool {
	return func(all []redlock.Answer) bool {
		t := redlock.Count(all)
		return t.Yes > 0 && t.Yes >= of(t.Yes+t.No)
	}
}

func every(n int) int { return n }

// binary is the token's bytes as they are.
func binary(token string) string {
	raw, _ := hex.DecodeString(token)
	return string(raw) + "\r\n\x00\xff"
}

// one is a shape on one server, and several one on all.
func one(doc, slip string, right, wrong design) Shape {
	s := several(doc, slip, right, wrong)
	s.OneNode = true
	return s
}

func several(doc, slip string, right, wrong design) Shape {
	return Shape{Kind: lock.Kind{Doc: doc, New: factory(right)}, Slip: slip, Wrong: factory(wrong)}
}

func (s Shape) with(change func(*Shape)) Shape {
	change(&s)
	return s
}

// All has each shape by its name.
var All = map[string]Shape{
	"instance": one("one key on one server", "compares and deletes in two steps",
		instance, instance.but(func(d *design) { d.del = lookThenDelete })),
	"polling": one("tries and waits for always the same time", "does not undo an attempt whose outcome it doesn't know",
		instance.but(func(d *design) { d.even = true }), instance.but(func(d *design) { d.even, d.leaves = true, true })),
	"idempotent": one("may be sent again, with the same token", "takes any key for its own once it has asked before",
		instance.but(func(d *design) { d.set, d.sends = setOrOwn, 3 }), instance.but(func(d *design) { d.set, d.sends = setOrAnybody, 3 })),
	"scripted": one("looks and sets in a script", "looks and sets in two steps",
		instance.but(func(d *design) { d.set = setIfNothing }), instance.but(func(d *design) { d.set = lookThenSet })),
	"transaction": one("sets the key and its expiry in a transaction", "gives whoever holds the key more time by trying",
		instance.but(func(d *design) { d.set = inTransaction("NX") }), instance.but(func(d *design) { d.set = inTransaction() })),
	"binary": one("has tokens of any bytes", "passes the token on as text when it releases",
		instance.but(func(d *design) { d.token = binary }),
		instance.but(func(d *design) {
			d.token = binary
			d.del = asText(d.del)
		})),
	"field": one("is a field of a hash, which counts how often its owner has it", "deletes the hash whoever has the field",
		instance.but(func(d *design) { d.set, d.del, d.extend = fieldSet, fieldDelete, fieldExpire }),
		instance.but(func(d *design) { d.set, d.del, d.extend = fieldSet, deleteAnyway, fieldExpire })),
	"counter": one("counts its grants for fencing tokens", "draws the fencing token before it has the lock",
		instance.but(func(d *design) { d.set = setAndCount }), instance.but(func(d *design) { d.set = countThenSet })).
		with(func(s *Shape) { s.Can.Fence, s.Fenced = true, true }),
	"fair": one("gives the lock to those who wait in turn", "keeps the place of one who waits no more",
		instance.but(func(d *design) { d.set = queue("now - tonumber(at) > tonumber(ARGV[4])") }),
		instance.but(func(d *design) { d.set = queue("false") })),
	"watchdog": one("extends by itself and tells of a loss", "extends without comparing the token",
		instance.but(func(d *design) { d.renew = 25 }),
		instance.but(func(d *design) { d.renew, d.extend = 25, expireAnyway })).
		with(func(s *Shape) { s.Belief = lock.BySignal }),
	"endless": one("has no deadline for its holder", "sets the key and its expiry in two steps",
		instance.but(func(d *design) { d.endless = true }), instance.but(func(d *design) { d.endless, d.set = true, setThenExpire })).
		with(func(s *Shape) { s.Belief = lock.ByNothing }),

	"reentrant": reentering(one("can be acquired again by who holds it", "lets go at the first of its releases",
		instance.but(func(d *design) { d.set, d.del, d.extend = setFirst, leave, holdsOnTo }),
		instance.but(func(d *design) { d.set, d.del, d.extend = setFirst, leaveAll, holdsOnTo }))),

	"majority": several("most of the nodes", "counts those only that answer",
		votes, votes.but(func(d *design) { d.quorum = ofThoseThatAnswer(redlock.Quorum) })),
	"unanimous": several("all nodes", "counts those only that answer",
		votes.but(func(d *design) { d.quorum = atLeast(every) }), votes.but(func(d *design) { d.quorum = ofThoseThatAnswer(every) })).
		with(func(s *Shape) { s.Quorum = every }),
	"reversed": several("asks the nodes in turn, the last first", "gives up at the first no, and keeps what it has",
		votes.but(func(d *design) { d.order = slices.Reverse[[]int] }),
		votes.but(func(d *design) { d.order, d.giveUp = slices.Reverse[[]int], true })),
	"hasty": several("returns once it has a quorum", "releases those only that it has waited for",
		votes.but(func(d *design) { d.hasty = true }), votes.but(func(d *design) { d.hasty, d.chosen = true, true })),
}

// queue is the vote of the script of tickets; silent says when one who waits is forgotten.
func queue(silent string) vote { return script(strings.Replace(ticket, "{{silent}}", silent, 1)) }
