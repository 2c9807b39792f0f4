// Package contender is how a client of a real backend and its harness speak: the
// client's program in a process of its own, wherever that runs, on stdin and stdout.
//
// Its nouns are Order, Report and Reading, which are the messages; Main is the
// client's end and Conversation the harness's; and Room, which is where one client
// follows the other.
//
// Deliberately missing: how the process comes to be, and what the client does
// (package client).
package real

import (
	"errors"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// A client subprocess and its harness speak over its stdin and stdout, one JSON
// value a line:
//
//	harness                                  client
//	{"spec":{…},"origin":812345678901}  ──►
//	                                    ◄──  {"event":{…}}
//	                                    ◄──  {"at":"after-acquire"}     and it waits
//	go                                  ──►
//	clock                               ──►
//	                                    ◄──  {"clock":{…}}              what its clocks show
//	                                    ◄──  {"error":"…"}              it can't do its part
//	                                    ◄──  {"left":{}}                it has ended: of its room, if it is in one
//
// It ends with exit status 0 when its work is done, and at once when its stdin ends.

// Order is the first line to a client.
type clientOrder struct {
	Spec   client.Spec   `json:"spec"`
	Origin time.Duration `json:"origin"` // true time zero, by proc.TrueClock
	// Clocks says that its clocks may be turned. It then tells first what they show.
	Clocks bool `json:"clocks,omitempty"`
}

// Report is a line from a client. One field is set, beside Broken.
type clientReport struct {
	Event  *history.Event `json:"event,omitempty"` // a fact; T is true time since zero
	At     string         `json:"at,omitempty"`    // it is at a point, and waits
	Clock  *ClockReading  `json:"clock,omitempty"` // what its clocks show
	Error  string         `json:"error,omitempty"`
	Broken bool           `json:"broken,omitempty"` // the error is lock.ErrBroken
	Left   *clientExit    `json:"left,omitempty"`   // it has ended, says its room, which stays
}

// err is the error that it reports.
func (r clientReport) err() error {
	if r.Broken {
		return broken{errors.New(r.Error)}
	}
	return errors.New(r.Error)
}

// broken is a lock.ErrBroken that says so in its text already.
type broken struct{ error }

// is says that it is lock.ErrBroken.
func (broken) is(err error) bool { return err == lock.ErrBroken }

// Left is how a client came to its end that was in a room.
type clientExit struct {
	Error  string `json:"error,omitempty"`  // "": its exit status was 0
	Signal int    `json:"signal,omitempty"` // that ended it
}

// Reading is what a process's clocks showed at an instant between two of true time.
type ClockReading struct {
	From time.Duration `json:"from"` // by proc.TrueClock
	To   time.Duration `json:"to"`
	Wall int64         `json:"wall"` // nanoseconds since 1970
	Now  int64         `json:"now"`  // likewise, of a client's monotonic clock; 0: not read
}

const (
	goOn = "go\n" // lets a client leave its point
	// tellClock asks it what its clocks show.
	tellClock = "clock\n"
)
