package display

import (
	"cmp"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// changeText describes one kind of key change. WHO stands for the client that made the change, and
// KEY for the key's name in the report.
type changeText struct {
	eventText    string // the change as one line in a list of events
	lossText     string // predicate of a sentence about the node that lost the key
	earlyEndText string // why the key ended early, for text that already names the node
}

const (
	failoverText = "failover to a replica without it"
	restartText  = "the node restarted without it"
)

var changes = map[history.Change]changeText{
	history.KeySet:      {eventText: "KEY is set"},
	history.KeyChanged:  {"KEY gets another value", "had KEY overwritten by WHO", "WHO overwrites it"},
	history.KeyExpiry:   {eventText: "KEY gets another expiry time"},
	history.KeyDeleted:  {"KEY is deleted", "", "a release by WHO deletes it, though it belongs to another client"},
	history.KeyExpired:  {"KEY has expired", "let KEY expire early", "it expires early by the node's clock"},
	history.KeyEvicted:  {"KEY is evicted for lack of memory", "evicted KEY for lack of memory", "the node is out of memory"},
	history.KeyFlushed:  {"KEY is flushed with all other keys", "lost KEY in a flush", "WHO flushes the node"},
	history.KeyLost:     {"KEY is lost", "", restartText},
	history.KeyKept:     {eventText: "KEY still exists"},
	history.KeyReverted: {"KEY has reverted to an old value", "lost KEY and has an old value again", restartText},
	history.KeyAppeared: {eventText: "KEY exists again"},
	history.KeyGap:      {eventText: "events may be missing here"},
}

// DescribeKeyChange describes a key change in one line. It returns "" for an unknown change.
func DescribeKeyChange(change history.Change, key string) string {
	return strings.ReplaceAll(changes[change].eventText, "KEY", key)
}

// DescribeKeyLoss describes how a node lost a key before the key was due to expire. The text
// continues a sentence that begins with the node.
func DescribeKeyLoss(change history.Change, key, who string) string {
	return strings.NewReplacer("KEY", key, "WHO", who).Replace(cmp.Or(changes[change].lossText, "lost KEY"))
}

// DescribeEarlyEnd explains why a key ended early. If the key was lost because a server process
// ended, why states how the process ended, for example history.Failover.
func DescribeEarlyEnd(change history.Change, why, who string) string {
	text := cmp.Or(changes[change].earlyEndText, string(change))
	if text == restartText && why == history.Failover {
		return failoverText
	}
	return strings.ReplaceAll(text, "WHO", who)
}

// Parties names the clients and nodes involved in a cause: the holder of the lock, the client that
// was granted the lock next, and the client that deleted the first holder's key.
type Parties struct{ Holder, NextHolder, Nodes, Deleter string }

// CauseClause returns a clause that explains why two clients held a lock at the same time, or "" for
// an unknown cause.
func CauseClause(cause string, p Parties) string {
	return strings.NewReplacer("NODES", p.Nodes, "KEY", p.Holder+"'s key", "FIRST", p.Holder, "SECOND", p.NextHolder, "DELETER", p.Deleter).Replace(causes[cause])
}

var causes = map[string]string{
	verdict.ExpiredEarly:       "KEY expired early by the clock of NODES",
	verdict.NotifiedLate:       "FIRST was not notified in time that KEY on NODES was gone",
	verdict.GrantedLate:        "FIRST learned that it had the lock only after KEY on NODES was gone",
	verdict.RestartedAndForgot: "NODES restarted without KEY",
	verdict.LostUnsynced:       "NODES lost power before KEY was on disk",
	verdict.FailedOver:         "NODES failed over to a replica without KEY",
	verdict.DeletedByOther:     "DELETER deleted KEY on NODES",
	verdict.ReleasedEarly:      "FIRST deleted KEY on NODES while it still held the lock",
	verdict.Overwritten:        "SECOND overwrote KEY on NODES",
	verdict.NeverSet:           "FIRST was granted the lock without a majority",
	verdict.GivenShorter:       "KEY on NODES expired sooner than FIRST believed",
	verdict.ClientClock:        "FIRST's clock fell behind",
	verdict.DeletedByHarness:   "KEY on NODES was deleted, but not by a client",
	verdict.Flushed:            "NODES lost KEY in a flush",
	verdict.Evicted:            "NODES evicted KEY for lack of memory",
	verdict.ClocksDisagree:     "the clocks of FIRST and NODES disagreed",
}
