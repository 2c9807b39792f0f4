package process

import (
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
)

// A client subprocess and its harness speak over its stdin and stdout, one JSON
// value a line:
//
//	harness                                  client
//	{"spec":{…},"origin":812345678901}  ──►
//	                                    ◄──  {"event":{…}}
//	                                    ◄──  {"at":"after-acquire"}     and it waits
//	go                                  ──►
//	                                    ◄──  {"error":"…"}              it can't do its part
//
// It ends with exit status 0 when its work is done, and at once when its stdin ends.

// order is the first line to a client.
type order struct {
	Spec   client.Spec   `json:"spec"`
	Origin time.Duration `json:"origin"` // true time zero, by proc.TrueClock
}

// report is a line from a client. One field is set.
type report struct {
	Event *history.Event `json:"event,omitempty"` // a fact; T is true time since zero
	At    string         `json:"at,omitempty"`    // it is at a point, and waits
	Error string         `json:"error,omitempty"`
}

// goOn lets a client leave its point.
const goOn = "go\n"
