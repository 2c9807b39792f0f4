package exhaust

import "fmt"

// action is a kind of step.
type action string

// What can happen: to a client, to its window, to a message, to a node.
const (
	started      action = "starts"
	acquired     action = "acquires"
	failed       action = "fails to acquire"
	released     action = "releases"
	Extending    action = "begins to extend"
	Extended     action = "extends"
	extendLost   action = "learns that it is lost"
	extendFailed action = "fails to extend"
	over         action = "window is over"
	reply        action = "reply arrives"
	Raising      action = "writes its token back"
	Read         action = "reads"
	writing      action = "sends its write"
	set          action = "SET"
	extend       action = "EXTEND"
	del          action = "DEL"
	Raise        action = "RAISE"
	write        action = "WRITE"
	expired      action = "key expires"
	synced       action = "syncs its disk"
	crashed      action = "crashes"
	restarted    action = "is back"
	votes        action = "votes again"
	Lost         action = "is lost"
	jumped       action = "clock jumps"
)

// Step is one transition.
type Step struct {
	Action  action `json:"action"`
	Client  int    `json:"client"` // 1 or 2; 0: none
	Attempt int    `json:"attempt"`
	Node    int    `json:"node"`              // from 1; 0: none
	Yes     bool   `json:"yes,omitempty"`     // what the node answers
	Expired bool   `json:"expired,omitempty"` // it finds that the key has expired
	Synced  bool   `json:"synced,omitempty"`  // what it changes is on the disk at once
	Heard   uint8  `json:"heard,omitempty"`   // nodes, a bit each, whose counts of grants the client has heard
	Behind  uint8  `json:"behind,omitempty"`  // those of them to which it writes its token back
	Fence   uint8  `json:"fence,omitempty"`   // the token
}

// String is the step in words.
func (s Step) String() string {
	who := fmt.Sprintf("c%d", s.Client)
	if s.Attempt > 1 {
		who += fmt.Sprintf(" (attempt %d)", s.Attempt)
	}
	switch s.Action {
	case set, extend, del, Raise, reply:
		answer := "no"
		if s.Yes {
			answer = "yes"
		}
		if s.Expired {
			answer += ", the key there had expired"
		}
		if s.Synced {
			answer += ", on disk"
		}
		if s.Action == reply {
			return fmt.Sprintf("%s hears from n%d: %s", who, s.Node, answer)
		}
		return fmt.Sprintf("%s of %s at n%d: %s", s.Action, who, s.Node, answer)
	case acquired, Raising:
		if s.Fence > 0 {
			who += fmt.Sprintf(", with token %d,", s.Fence)
		}
		return fmt.Sprintf("%s %s", who, s.Action)
	case Read, write:
		text := fmt.Sprintf("%s %s", who, s.Action)
		if s.Action == write {
			text = fmt.Sprintf("the write of %s arrives", who)
		}
		if !s.Yes {
			text += ", and is refused"
		}
		return text
	case over:
		return who + "'s window is over"
	case expired, jumped:
		return fmt.Sprintf("n%d's %s", s.Node, s.Action)
	case Lost:
		return fmt.Sprintf("DEL of %s to n%d is lost", who, s.Node)
	case crashed, restarted, votes, synced:
		return fmt.Sprintf("n%d %s", s.Node, s.Action)
	}
	return fmt.Sprintf("%s %s", who, s.Action)
}
