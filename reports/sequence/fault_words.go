package sequence

import (
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/words"
)

// faultWords is how a fault is told.
type faultWords struct {
	subject    string
	began      string
	ended      string
	was        string // for the caption, before "from A to B" or "at A"
	down       string // the same of what is down and comes back, before "at A and started again at B"
	back       string // the same of what is replaced and whose first comes back, before "at B"
	mark, over Mark
}

// whole tells of a fault that ended. What a node came back with matters.
func (w faultWords) whole(from, to, back string) string {
	if w.back != "" {
		return fmt.Sprintf("%s at %s, and %s at %s", w.was, from, w.back, to)
	}
	if w.down == "" {
		return fmt.Sprintf("%s from %s to %s", w.was, from, to)
	}
	if back != "" {
		back = " (" + words.Fit(back, 60) + ")"
	}
	return fmt.Sprintf("%s at %s and started again at %s%s", w.down, from, to, back)
}

// wordsFor tells a group of faults on targets. Held is the message that a fault of
// one message is about.
func wordsFor(g []*facts.Fault, targets, held string) faultWords {
	client, _, _ := nemesis.SplitLink(g[0].Target)
	client = short(client)
	saw := ""
	if g[0].Begin != nil && g[0].Begin.Cause != "" {
		saw = " (" + words.Fit(g[0].Begin.Cause, 60) + ")"
	}
	hit := func(subject, begins, ends, was string) faultWords {
		return faultWords{subject: subject, began: subject + " " + begins, ended: subject + " " + ends, was: was, mark: Down, over: Up}
	}
	down := func(begins, was string) faultWords {
		w := hit(targets, begins, "starts again", was)
		w.down, w.mark, w.over = was, Cross, Ring
		return w
	}
	switch kind := g[0].Kind; kind {
	case "pause":
		return hit(targets, "is paused", "resumes", "was paused")
	case "kill":
		return down("is killed", "was killed")
	case "shutdown":
		return down("is shut down", "was shut down")
	case "power-loss":
		return down("loses its power", "lost its power")
	case "failover":
		w := hit(targets, "fails over to its replica"+saw, "", "failed over to its replica"+saw)
		w.ended, w.back, w.over = "the old master of "+targets+" is back, and follows the new one", "its old master was back", Ring
		return w
	case "cut":
		w := hit(client, "is cut off from "+targets, "reaches "+targets+" again", "was cut off from "+targets)
		if client == "" { // a replication link
			w = hit(targets, "is cut", "is mended", "was cut")
		}
		return w
	case "delay", "throttle":
		return hit(client, "and "+targets+" hear each other late", "and "+targets+" hear each other in time again", "and "+targets+" heard each other late")
	case "lose":
		return hit(client, "and "+targets+" lose messages", "and "+targets+" lose no more messages", "and "+targets+" lost messages")
	case "hold", "drop":
		return messageWords(kind, message(held, client, targets))
	case "slow-disk":
		return hit("the disk of "+targets, "stalls", "syncs again", "stalled")
	case "full-disk":
		return hit("the disk of "+targets, "is full", "has room again", "was full")
	case "unplug":
		return hit(targets, "loses its network", "is on the network again", "was off the network")
	case "starve":
		return hit(targets, "is starved"+saw, "is fed again", "was starved"+saw)
	case history.OpGoOn:
		return hit(targets, "goes on by itself", "", "went on by itself")
	case "touch":
		return hit(targets, "gets another key", "", "got another key")
	default:
		if strings.HasPrefix(kind, "clock-") {
			return hit("the clock of "+targets, "goes wrong"+saw, "is put right", "was wrong"+saw)
		}
		return hit(targets, "is hit by "+short(kind), "is rid of "+short(kind), "was hit by "+short(kind))
	}
}

func message(held, client, targets string) string {
	if sort, ok := strings.CutPrefix(held, "answer to "); ok {
		return fmt.Sprintf("the answer of %s to %s's %s", targets, client, short(sort))
	}
	return fmt.Sprintf("the %s of %s to %s", short(held), client, targets)
}

func messageWords(kind, message string) faultWords {
	if kind == "drop" {
		return faultWords{subject: message, began: "the network loses " + message, was: "was lost by the network", mark: Cross}
	}
	return faultWords{subject: message, began: "the network holds " + message, ended: "the network delivers " + message,
		was: "was held by the network", mark: Down, over: Up}
}
