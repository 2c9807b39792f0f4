// Package conformance holds servers to one another: stories in text files, told to
// the simulated Redis node, to a real redis-server and to miniredis, have the same
// replies everywhere. Where they differ, redis-server is right.
//
// Its nouns are Story (commands with their replies, and directives such as wait,
// kill, restart and clock), Server (who it is told to) and Reply (what that one said,
// and how late). What a server can do besides answering is an interface of its own:
// Ender, Disk, Clock, Dialler.
//
//	# what it is about
//	not miniredis: it has no disk        why it is left out there
//	persistence everysec                 none, everysec, always or no; none if not said
//	script release path/from/top.lua     its text is $release, its SHA-1 $release.sha
//
//	SET k v PX 10000                     a command begins with a capital,
//		+OK                              its reply with a tab: as sent, a number within
//	PTTL k                               bounds (~10000±100), or a pattern (/run_id:\w+/)
//		~10000±100
//	wait 1.1s                            a directive does not
//
// The directives are wait, second (wait for a new one), kill, shutdown, restart,
// power-loss [torn], sync [duration], clock (+1s, -1s, rate 2, still), run_id
// (noted, kept, new), session <name> (on one connection from now on; without a name each
// command has its own) and hang-up (close it); @name is that
// session's number. heard, with a reply, is what the server
// pushed on the session's connection since the last time. go test -update writes
// redis-server's replies into the stories.
//
// Time is the story's: a wait ends when so much has passed since its first command,
// so that what commands take does not add up. A server that is later than the story
// allows for has said nothing; it is told the story again.
//
// Deliberately missing: two commands at a time, and more than one node. The simulation's
// network and its faults have tests of their own.
package conformance

import (
	"time"

	"lockpick/harness/resp"
)

// Server is who a story is told to.
type Server interface {
	// Do sends one command. An error reply is a reply.
	Do(words []string) (resp.Value, error)
	// Wait lets time pass: until so much more of the story's time is over.
	Wait(d time.Duration) error
	// Late is how much more time has passed than the story says. Virtual time has none.
	Late() time.Duration
}

// ender can end and start again.
type ender interface {
	Kill() error
	Shutdown() error
	Restart() error
}

// disk can lose its power, and with it what was not synced.
type disk interface {
	// LosePower ends the server too. Torn leaves half of the first write that was lost.
	LosePower(torn bool) error
	// Unsynced says whether there is something to lose.
	Unsynced() bool
}

// clock can be set by a time, and made to run at a rate.
type clock interface {
	Turn(by time.Duration, rate float64) error
}
