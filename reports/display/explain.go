package display

import (
	"cmp"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// change is what one change is called. WHO made it, and KEY is the key as the reader knows it.
type change struct {
	event string // as one line of a page's events
	lost  string // as what a node did with a client's key; the node stands before it
	early string // as why a key ended before its time; its node is known
}

const (
	failedOver = "failover to a replica that has not got it"
	restarted  = "the node is back without it"
)

var changes = map[history.Change]change{
	history.KeySet:      {event: "KEY is set"},
	history.KeyChanged:  {"KEY gets another value", "has WHO's value put over KEY", "WHO puts its own there"},
	history.KeyExpiry:   {event: "KEY gets another expiry"},
	history.KeyDeleted:  {"KEY is deleted", "", "WHO's release deletes it, which is not its own"},
	history.KeyExpired:  {"KEY has expired", "let KEY expire before its time", "its clock says that its time is over"},
	history.KeyEvicted:  {"KEY is dropped for want of memory", "dropped KEY for want of memory", "the node has no memory left"},
	history.KeyFlushed:  {"KEY is flushed with all others", "lost KEY with all others", "WHO empties the node"},
	history.KeyLost:     {"KEY is lost", "", restarted},
	history.KeyKept:     {event: "KEY is still there"},
	history.KeyReverted: {"KEY is what it once was", "lost KEY, and has what was there before", restarted},
	history.KeyAppeared: {event: "KEY is there again"},
	history.KeyGap:      {event: "facts may be missing here"},
}

// KeyEvent is a change of a key in one line; "" if it is unknown.
func KeyEvent(what history.Change, key string) string {
	return strings.ReplaceAll(changes[what].event, "KEY", key)
}

// KeyLost is what a node did with a key that it had before its time was over.
func KeyLost(what history.Change, key, who string) string {
	return strings.NewReplacer("KEY", key, "WHO", who).Replace(cmp.Or(changes[what].lost, "lost KEY"))
}

// KeyEndedEarly is why a key ended before its time; why is the end of the server's life that it didn't
// survive, if that was it.
func KeyEndedEarly(what history.Change, why, who string) string {
	text := cmp.Or(changes[what].early, string(what))
	if text == restarted && why == history.Failover {
		return failedOver
	}
	return strings.ReplaceAll(text, "WHO", who)
}

// Parties are those that a cause is about. First had the lock when Second was granted it, and
// Deleter took First's key away.
type Parties struct{ First, Second, Nodes, Deleter string }

// CauseClause is the cause of a shared hold in one clause; "" if it is unknown.
func CauseClause(cause string, of Parties) string {
	return strings.NewReplacer("NODES", of.Nodes, "KEY", of.First+"'s key", "FIRST", of.First, "SECOND", of.Second, "DELETER", of.Deleter).Replace(causes[cause])
}

var causes = map[string]string{
	verdict.ExpiredEarly:       "KEY expired early by the clock of NODES",
	verdict.ToldLate:           "FIRST was not told in time that KEY on NODES was gone",
	verdict.GrantedLate:        "FIRST learned of its lock only after KEY on NODES was gone",
	verdict.RestartedAndForgot: "NODES restarted without KEY",
	verdict.LostUnsynced:       "NODES lost power before KEY was on disk",
	verdict.FailedOver:         "NODES failed over to a replica without KEY",
	verdict.DeletedByOther:     "DELETER deleted KEY on NODES",
	verdict.ReleasedEarly:      "FIRST, who still held it, deleted KEY on NODES",
	verdict.Overwritten:        "SECOND set its key on NODES over KEY",
	verdict.NeverSet:           "FIRST was granted the lock without a majority",
	verdict.GivenShorter:       "KEY on NODES lived shorter than FIRST believed",
	verdict.ClientClock:        "FIRST's clock fell behind",
	verdict.DeletedByHarness:   "KEY on NODES was deleted by none of the clients",
	verdict.Flushed:            "NODES lost KEY with all others in a flush",
	verdict.Evicted:            "NODES dropped KEY for want of memory",
	verdict.ClocksDisagree:     "the clocks of FIRST and NODES disagreed",
}
