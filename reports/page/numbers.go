package page

import (
	"math"
	"strconv"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

type number struct{ Name, Value, Unit, Meaning, Word string }

// meanings says of each of checker.Numbers what it is, and in which unit.
var meanings = map[string]struct{ unit, meaning string }{
	verdict.Grants:              {"", "acquires that returned the lock"},
	verdict.GrantsPerSecond:     {"/s", "of true time, from the first client's event to the last"},
	verdict.AcquireP50:          {"s", "from call to return of granted acquires: half took at most this"},
	verdict.AcquireP99:          {"s", "99 of 100 took at most this"},
	verdict.AcquireMax:          {"s", "the longest"},
	verdict.DoubleHoldSeconds:   {"s", "true time in which two sessions or more believed that they held a lock"},
	verdict.DoubleHoldIncidents: {"", "spells of such time"},
	verdict.Writes:              {"", "that came to the resource, applied or refused"},
	verdict.RefusedWrites:       {"", "of these"},
	verdict.WritesOutsideBelief: {"", "applied when their session no longer believed"},
	verdict.LostUpdates:         {"", "writes applied over another session's that they had not seen"},
	verdict.RefusedHolders:      {"", "reads and writes that the fence refused while their session believed"},
	verdict.ValidityLeftMin:     {"s", "least time left of a lock when its acquire returned, by the client's clock"},
	verdict.ValidityLeftP50:     {"s", "the same, median"},
	verdict.SplitVoteRate:       {"share", "attempts on a free lock in which nobody got a majority"},
	verdict.LosingStreak:        {"", "most of these in a row on one lock"},
	verdict.JainIndex:           {"", "of grants per client: 1 is equal shares, 1/n all for one of n"},
	verdict.UnavailableSeconds:  {"s", "nobody believed to hold a lock that somebody wanted"},
	verdict.UnavailableShare:    {"share", "the same as a share of the clients' time, per lock"},
	verdict.UnavailableMax:      {"s", "the longest such spell, and why"},
	verdict.DeathToGrant:        {"s", "the longest from a holder's death to the next grant"},
	verdict.OrphanKeys:          {"", "keys that a node still had after their TTL"},
	verdict.StalledSeconds:      {"s", "the machine stood still, which nobody planned"},
	verdict.StalledMax:          {"s", "the longest such spell"},
}

func measured(r outcome.Run) []number {
	var out []number
	for _, n := range checker.Numbers() {
		x, ok := r.Verdict.Numbers[n]
		if !ok {
			continue
		}
		m := meanings[n]
		v := number{Name: n, Value: figure(x), Unit: m.unit, Meaning: m.meaning, Word: plain(r.Verdict.Words[n])}
		switch {
		case m.unit == "share":
			v.Value, v.Unit = figure(100*x), "%"
		case m.unit == "s" && x != 0 && math.Abs(x) < 1:
			v.Value, v.Unit = figure(1000*x), "ms"
		}
		out = append(out, v)
	}
	return out
}

// figure writes a number with three digits that count, and a count in full.
func figure(x float64) string {
	switch {
	case x == math.Trunc(x) && math.Abs(x) < 1e15:
		return display.Grouped(int(x))
	case math.Abs(x) >= 0.01 && math.Abs(x) < 1e15:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
		return strconv.FormatFloat(x, 'f', min(max(digits, 0), 3), 64)
	}
	return outcome.Figure(x)
}
