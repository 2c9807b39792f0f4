package exhaust

import "fmt"

// Action is a kind of step.
type Action string

// What can happen: to a client, to its window, to a message, to a node.
const (
	Started      Action = "starts"
	Acquired     Action = "acquires"
	Failed       Action = "fails to acquire"
	Released     Action = "releases"
	Extending    Action = "begins to extend"
	Extended     Action = "extends"
	ExtendLost   Action = "learns that it is lost"
	ExtendFailed Action = "fails to extend"
	Over         Action = "window is over"
	Reply        Action = "reply arrives"
	Raising      Action = "writes its token back"
	Read         Action = "reads"
	Writing      Action = "sends its write"
	Set          Action = "SET"
	Extend       Action = "EXTEND"
	Del          Action = "DEL"
	Raise        Action = "RAISE"
	Write        Action = "WRITE"
	Expired      Action = "key expires"
	Synced       Action = "syncs its disk"
	Crashed      Action = "crashes"
	Restarted    Action = "is back"
	Votes        Action = "votes again"
	Lost         Action = "is lost"
	Jumped       Action = "clock jumps"
)

// Step is one transition.
type Step struct {
	Action  Action `json:"action"`
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
	case Set, Extend, Del, Raise, Reply:
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
		if s.Action == Reply {
			return fmt.Sprintf("%s hears from n%d: %s", who, s.Node, answer)
		}
		return fmt.Sprintf("%s of %s at n%d: %s", s.Action, who, s.Node, answer)
	case Acquired, Raising:
		if s.Fence > 0 {
			who += fmt.Sprintf(", with token %d,", s.Fence)
		}
		return fmt.Sprintf("%s %s", who, s.Action)
	case Read, Write:
		text := fmt.Sprintf("%s %s", who, s.Action)
		if s.Action == Write {
			text = fmt.Sprintf("the write of %s arrives", who)
		}
		if !s.Yes {
			text += ", and is refused"
		}
		return text
	case Over:
		return who + "'s window is over"
	case Expired, Jumped:
		return fmt.Sprintf("n%d's %s", s.Node, s.Action)
	case Lost:
		return fmt.Sprintf("DEL of %s to n%d is lost", who, s.Node)
	case Crashed, Restarted, Votes, Synced:
		return fmt.Sprintf("n%d %s", s.Node, s.Action)
	}
	return fmt.Sprintf("%s %s", who, s.Action)
}
