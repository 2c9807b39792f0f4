package page

import (
	"cmp"
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

func detail(e *history.Event) string {
	parts := []string{}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("%s", told(e))
	if e.Type != history.Invoke && e.ValidUntil != 0 {
		add("until %s (%s left)", display.Seconds(e.ValidUntil), display.Span(e.ValidUntil-e.T))
	}
	if e.Fence != 0 {
		add("fence %d", e.Fence)
	}
	if e.Op == history.OpClock {
		add("shows %s, runs %+d ppm", display.Seconds(e.Local), e.Drift/1000)
	}
	if e.TTL > 0 {
		add("TTL %s", display.Span(e.TTL))
	}
	if e.Version != 0 || e.Op == history.OpWrite && e.Type == history.Invoke {
		add("version %d", e.Version)
	}
	if e.Value != "" {
		add("value %s", name(e.Value))
	}
	if e.Token != "" && e.Node != "" {
		add("token %s", display.Visible(e.Token, 8))
	}
	if t := wire(e); t != "" {
		add("%s", t)
	}
	if e.Cause != "" && e.Op != history.OpLog {
		add("%s", display.Visible(e.Cause, longestCell))
	}
	if e.Step > 0 {
		add("step %d", e.Step)
	}
	if e.Step == history.Unplanned {
		add("nobody planned it")
	}
	return strings.TrimPrefix(strings.Join(parts, " · "), " · ")
}

// told is what was done, to what.
func told(e *history.Event) string {
	key, node := cmp.Or(name(e.Key), "the lock"), name(e.Node)
	switch {
	case e.Life != nil:
		return toldLife(e.Life, key)
	case e.Process == history.Nemesis && e.Op == history.OpClock:
		return "the clock of " + node + " is turned"
	case e.Process == history.Nemesis:
		return nemesisWords[e.Type] + " " + faultName(e.Op) + " on " + node
	case e.Op == history.OpLog:
		return fmt.Sprintf("the resource's log: %s of %s by %s %s at %s", name(e.Cause), key, name(e.Session), logWords[e.Type], display.Seconds(e.Applied))
	case node != "" && e.Op != history.OpClock:
		return answered(e, node, key)
	}
	if w := eventWords[e.Op+" "+string(e.Type)]; w != "" {
		return strings.NewReplacer("KEY", key, "NODE", node).Replace(w)
	}
	return name(e.Op) + " " + key
}

// lifeWords says what became of a key.
var lifeWords = map[history.Change]string{
	history.KeySet: "KEY is set", history.KeyChanged: "KEY gets another value", history.KeyExpiry: "KEY gets another expiry",
	history.KeyDeleted: "KEY is deleted", history.KeyExpired: "KEY has expired", history.KeyEvicted: "KEY is dropped for want of memory",
	history.KeyFlushed: "KEY is flushed with all others", history.KeyLost: "KEY is lost", history.KeyKept: "KEY is still there",
	history.KeyReverted: "KEY is what it once was", history.KeyAppeared: "KEY is there again", history.KeyGap: "facts may be missing here",
}

// toldLife is a fact of a key's life.
func toldLife(l *history.Life, key string) string {
	text := strings.ReplaceAll(cmp.Or(lifeWords[l.What], "KEY: "+name(string(l.What))), "KEY", key)
	if l.Old != "" && l.Old != l.Value {
		text += ", was " + display.Visible(l.Old, 8)
	}
	if l.Value != "" {
		text += ", is " + display.Visible(l.Value, 8)
	}
	switch {
	case l.By == "":
	case l.By == history.Harness:
		text += ", by lockpick"
	default:
		text += ", by " + name(l.By)
	}
	if l.Command != "" {
		text += " (" + name(strings.ToUpper(l.Command)) + ")"
	}
	if l.Why != "" {
		text += ", after a " + name(l.Why)
	}
	return text
}

// faultName is a kind of fault as a reader calls it.
func faultName(kind string) string {
	if kind == history.OpGoOn {
		return "end of a pause"
	}
	return cmp.Or(nemesis.ToldOf(kind).Name, name(kind))
}

var nemesisWords = map[history.Type]string{
	history.Invoke: "tries", history.Begin: "in force:", history.End: "healed:", history.Fail: "failed:", history.Info: "remark on",
}

var logWords = map[history.Type]string{history.OK: "applied", history.Fail: "refused"}

// answered says what a node made of a command.
func answered(e *history.Event, node, key string) string {
	op := name(e.Op)
	switch e.Type {
	case history.OK:
		return node + " " + cmp.Or(didWords[e.Op], "agreed to "+op) + " " + key
	case history.Fail:
		return node + " refused to " + op + " " + key
	case history.Info:
		return "no known answer of " + node + " to " + op + " " + key
	}
	return "request to " + node + " to " + op + " " + key
}

var didWords = map[string]string{history.OpSet: "set", history.OpRelease: "released", history.OpExtend: "extended", history.OpRead: "read", history.OpWrite: "wrote"}

// eventWords are the events of clients and of the harness.
var eventWords = map[string]string{
	"run begin": "the run begins", "run end": "the run ends", "stop info": "the run is stopped here",
	"client begin": "the client starts", "client end": "the client ends",
	"acquire invoke": "wants KEY", "acquire ok": "holds KEY", "acquire fail": "does not get KEY", "acquire info": "may have got KEY",
	"extend invoke": "extends KEY", "extend ok": "has KEY for longer", "extend fail": "does not get KEY for longer", "extend info": "may have KEY for longer",
	"read invoke": "reads under KEY", "read ok": "read completed", "read fail": "may not read under KEY", "read info": "no answer to the read under KEY",
	"check ok": "looks at its deadline: still valid", "check fail": "looks at its deadline: over",
	"write invoke": "writes under KEY", "write ok": "its write is applied", "write fail": "its write is refused", "write info": "no answer to its write",
	"release invoke": "gives KEY back", "release ok": "KEY is given back", "release fail": "did not hold KEY", "release info": "release of KEY: outcome unknown",
	"clock info": "the clock of NODE is turned", "clock ok": "the clock of NODE is turned",
	"at invoke": "waits at a point",
}

// wire is how long a command was under way, from when it was sent.
func wire(e *history.Event) string {
	var parts []string
	if e.Sent == 0 || e.Life != nil {
		return ""
	}
	if e.Applied != 0 {
		parts = append(parts, "there after "+display.Span(e.Applied-e.Sent))
	}
	if e.Answered != 0 {
		parts = append(parts, "answered after "+display.Span(e.Answered-e.Sent))
	} else {
		parts = append(parts, "sent "+display.Seconds(e.Sent)+", no answer came")
	}
	return strings.Join(parts, ", ")
}
