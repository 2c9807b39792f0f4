//go:build long

package scenarios_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/reports/sequence"
	"lockpick/scenarios/campaign"
)

// TestDrawingsAgreeWithRecord compares every name and number in the texts and diagrams of violations
// with the record. It has its own templates for the sentences and its own model of the record. A
// sentence that matches no template is an error.
func TestDrawingsAgreeWithRecord(t *testing.T) {
	numRuns := 4
	if nightly {
		numRuns = 80
	}
	var drawings, sentences, values int
	for _, lock := range []string{"redlock", "hardened", "redsync", "single", "rueidis"} {
		choice, err := (&campaign.Selection{Names: []string{"random-faults/"}, Lock: lock, Backend: "sim"}).Choose(campaign.KnownLocks(kinds.All))
		if err != nil {
			t.Fatal(err)
		}
		numDrawn := 0
		for seed := uint64(7_300_000); numDrawn < numRuns && seed < 7_310_000; seed++ {
			o := examineRun(t, choice.Picks[0].Scenario, seed)
			if o == nil {
				continue
			}
			numDrawn++
			if len(o.mistakes) > 0 {
				t.Errorf("%s, seed %d: %q", lock, seed, o.mistakes)
			}
			drawings, sentences, values = drawings+1, sentences+o.sentences, values+o.values
		}
		if numDrawn < numRuns {
			t.Errorf("only %d violations with %s", numDrawn, lock)
		}
	}
	t.Logf("%d drawings, %d sentences, %d names and numbers", drawings, sentences, values)
}

// examineRun runs a scenario and compares the drawings of its violation with its record, or returns
// nil if there is no violation.
func examineRun(t *testing.T, s scenario.Scenario, seed uint64) *oracle {
	t.Helper()
	var lines bytes.Buffer
	if err := harness.Run(t.Context(), sim.New(kinds.All), s.WithRandomPlan(seed), seed, history.NewRecorder(&lines)); err != nil {
		t.Fatalf("%s with %s, seed %d: %v", s.ID(), s.Lock.Kind, seed, err)
	}
	h, err := history.Read(bytes.NewReader(lines.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	v := checker.Check(h)
	if r := sequence.ShownResult(v); r == nil || r.Outcome != verdict.Violated {
		return nil
	}
	d := sequence.ForVerdict(h, v)
	o, err := examine(lines.Bytes(), d.Title, d.Summary, d.Caption, sequence.Text(d, maxWidth), sequence.Mermaid(d))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// maxWidth is wide enough to keep the lines of a diagram unwrapped.
const maxWidth = 4000

// oracle compares drawings and sentences with a record.
type oracle struct {
	*record
	statement         string // the text being compared, for messages
	sentences, values int
	mistakes          []string

	title           groups
	holders         []*hold // the two overlapping holds, earlier first; empty for other violations
	mentions        map[string]bool
	pauseCounts     map[string]int // by client, the number of pauses that the description mentions with their times
	idlePauseCounts map[string]int // by client, the number of pauses without effect
	row             *row           // the diagram row being compared, or nil for a sentence
}

func (o *oracle) fail(format string, args ...any) {
	o.mistakes = append(o.mistakes, fmt.Sprintf("%q: ", o.statement)+fmt.Sprintf(format, args...))
}

// groups holds a sentence's parts by name.
type groups map[string]string

// template is a sentence with parts of the form {name:sort}, and a function that compares the parts
// with the record.
type template struct {
	text  string
	check func(*oracle, groups)
	*regexp.Regexp
}

// partPatterns holds the regular expression for each sort of part.
var partPatterns = map[string]string{
	"time":     `\d+\.\d+`,
	"span":     `\d+(?:\.\d+)? ?(?:s|ms|µs|ns)`,
	"client":   `c\d+`,
	"node":     `n\d+`,
	"server":   `[nr]\d+`,
	"any":      `[cnr]\d+`,
	"servers":  `[nr]\d+(?:–n\d+)?(?:(?:, | and | )[nr]\d+(?:–n\d+)?)*`,
	"clients":  `c\d+(?:(?:, | and )c\d+)*`,
	"key":      `lock-\d+`,
	"count":    `\d+`,
	"times":    `once|twice|once more|\d+ times|\d+ more times`,
	"readback": `.+`,
	"message":  `set|release|write|read|extend`,
	"messages": `sets?|releases?|writes?|reads?|extends?`,
	"losses":   `c\d+'s update|versions? .+`,
	"reasons":  `.+`,
	"session":  `c\d+/\d+`,
	"word":     `[a-z-]+`,
	"words":    `[a-z -]+`,
}

var partPattern = regexp.MustCompile(`\{(\w+):(\w+)\}`)

func compile(all []template) []template {
	for i, t := range all {
		text := regexp.QuoteMeta(t.text)
		text = strings.NewReplacer(`\{`, `{`, `\}`, `}`, `\[\[`, `(?:`, `\]\]`, `)?`).Replace(text)
		text = partPattern.ReplaceAllStringFunc(text, func(p string) string {
			name, sort, _ := strings.Cut(p[1:len(p)-1], ":")
			return "(?P<" + name + ">" + partPatterns[sort] + ")"
		})
		all[i].Regexp = regexp.MustCompile("^" + text + "$")
	}
	return all
}

// compare checks a sentence with the template that it matches. given contains parts from elsewhere,
// such as a row's instant.
func (o *oracle) compare(sentence string, all []template, rowParts groups) {
	o.statement = sentence
	o.sentences++
	for _, t := range all {
		m := t.FindStringSubmatch(sentence)
		if m == nil {
			continue
		}
		g := groups{}
		for k, v := range rowParts {
			g[k] = v
		}
		for i, name := range t.SubexpNames() {
			if name != "" && m[i] != "" {
				g[name] = m[i]
				o.values++
			}
		}
		t.check(o, g)
		return
	}
	o.fail("no template matches")
}

// descriptionTemplates are the sentences of the description. Parts in [[…]] are optional.
var descriptionTemplates = compile([]template{
	{text: "{n:any} was killed at {t:time} s[[ and started again at {u:time} s ({cause:readback})]]", check: checkCrash("kill")},
	{text: "{n:any} was shut down at {t:time} s[[ and started again at {u:time} s ({cause:readback})]]", check: checkCrash("shutdown")},
	{text: "{n:any} was paused from {t:time} s to {u:time} s", check: checkFault("pause")},
	{text: "{n:any} was paused at {t:time} s", check: checkFault("pause")},
	{text: "{c:any} was paused {times:times}, without effect", check: (*oracle).checkIdlePauses},
	{text: "{c:client} acquired {key:key} at {t:time} s[[ with {left:time} s left]], by {votes:count} of {of:count} votes[[; {nodes:servers} had voted for {other:client}]]", check: (*oracle).checkAcquired},
	{text: "{n:node} lost {c:client}'s key at {t:time} s", check: checkKeyEnd("lost")},
	{text: "{n:node} let {c:client}'s key expire early at {t:time} s", check: (*oracle).checkEarlyExpiry},
	{text: "{c:client}'s key on {n:node} reached its expiry at {t:time} s", check: (*oracle).checkExpiryReached},
	{text: "{n:node} got an unrelated key at {t:time} s", check: checkFault("touch")},
	{text: "{c:client} was cut off from {nodes:servers} from {t:time} s to {u:time} s", check: checkLinkFault("cut")},
	{text: "Messages between {c:client} and {nodes:servers} were delayed from {t:time} s to {u:time} s", check: checkLinkFault("delay", "throttle")},
	{text: "Messages between {c:client} and {nodes:servers} got lost from {t:time} s to {u:time} s", check: checkLinkFault("lose")},
	{text: "The {m:message} from {c:client} to {nodes:server} was lost by the network at {t:time} s", check: (*oracle).checkLostRequests},
	{text: "The {m:messages} from {c:client} to {nodes:servers} were lost by the network [[between {t:time} s and {u:time} s]][[at {v:time} s]]", check: (*oracle).checkLostRequests},
	{text: "The reply from {nodes:server} to {c:client}'s {m:message} was lost by the network at {t:time} s", check: (*oracle).checkLostReplies},
	{text: "The replies from {nodes:servers} to {c:client}'s {m:messages} were lost by the network [[between {t:time} s and {u:time} s]][[at {v:time} s]]", check: (*oracle).checkLostReplies},
	{text: "The {m:message} from {c:client} to {nodes:server} was held by the network from {t:time} s to {u:time} s", check: (*oracle).checkHeldRequest},
	{text: "The reply from {nodes:server} to {c:client}'s {m:message} was held by the network from {t:time} s to {u:time} s", check: (*oracle).checkHeldReply},
	{text: "The replies from {nodes:servers} to {c:client}'s {m:messages} were held by the network, beginning between {t:time} s and {last:time} s and ending between {first:time} s and {u:time} s", check: (*oracle).checkHeldReply},
	{text: "The {m:messages} from {c:client} to {nodes:servers} were held by the network, beginning between {t:time} s and {last:time} s and ending between {first:time} s and {u:time} s", check: (*oracle).checkHeldRequest},
	{text: "The replies from {nodes:servers} to {c:client}'s {m:messages} were held by the network, beginning at {t:time} s and ending between {first:time} s and {u:time} s", check: (*oracle).checkHeldReply},
	{text: "The {m:messages} from {c:client} to {nodes:servers} were held by the network, beginning at {t:time} s and ending between {first:time} s and {u:time} s", check: (*oracle).checkHeldRequest},
	{text: "The replies from {nodes:servers} to {c:client}'s {m:messages} were held by the network from {t:time} s to {u:time} s", check: (*oracle).checkHeldReply},
	{text: "The {m:messages} from {c:client} to {nodes:servers} were held by the network from {t:time} s to {u:time} s", check: (*oracle).checkHeldRequest},
	{text: "Messages between {c:client} and {nodes:servers} were delayed, beginning at {t:time} s and ending between {first:time} s and {u:time} s", check: checkLinkFault("delay", "throttle")},
	{text: "Messages between {c:client} and {nodes:servers} got lost, beginning at {t:time} s and ending between {first:time} s and {u:time} s", check: checkLinkFault("lose")},
	{text: "{c:client} was cut off from {nodes:servers}, beginning at {t:time} s and ending between {first:time} s and {u:time} s", check: checkLinkFault("cut")},
	{text: "The clock of {n:any} was wrong ({cause:readback}) at {t:time} s", check: (*oracle).checkClockWrong},
	{text: "The clock of {n:any} was wrong ({cause:readback}) from {t:time} s to {u:time} s", check: (*oracle).checkClockWrong},
	{text: "Both believed that they held {key:key} from {t:time} s to {u:time} s", check: (*oracle).checkBothBelieved},
	{text: "Both must have held {key:key} from {t:time} s to {u:time} s, according to the replies they received, although they never believed so at the same time", check: (*oracle).checkBothHeld},
	{text: "{c:client} wrote version {base:count} → {result:count} at {t:time} s[[, after {late:words}]]", check: (*oracle).checkWrote},
	{text: "{c:client} wrote at {t:time} s, [[after {late:words}, ]]based on version {base:count}: {losses:losses} [[was lost]][[were lost]]", check: (*oracle).checkWrote},
	{text: "{c:client} sent a write at {t:time} s that is not known to have arrived", check: (*oracle).checkWriteSent},
	{text: "{c:client}'s lease ended at {t:time} s", check: (*oracle).checkLeaseEnded},
	{text: "{c:client} found at {t:time} s that its lease had ended, and did not write", check: checkEvent("check", "fail")},
	{text: "{c:client} was notified at {t:time} s that it had lost the lock", check: checkEvent("lost", "info")},
	{text: "A release by {c:client} that was sent at {sent:time} s reached {nodes:servers} at {t:time} s and deleted {other:client}'s key there", check: (*oracle).checkReleaseDeleted},
	{text: "A release by {c:client} that was sent [[at {sent:time} s]][[between {sentfrom:time} s and {sentto:time} s]] reached {nodes:servers} [[at {t:time} s]][[between {from:time} s and {to:time} s]] and deleted {other:client}'s key there", check: (*oracle).checkReleaseDeleted},
})

// summaryTemplates are the forms of the sentence above the description.
var summaryTemplates = compile([]template{
	{text: "{nodes:servers} restarted without {a:client}'s key, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("lost")},
	{text: "{a:client}'s key expired early by the clock of {nodes:servers}, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("expired")},
	{text: "{a:client}'s key on {nodes:servers} expired sooner than {a3:client} believed, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("expired")},
	{text: "{a:client} was not notified in time that {a3:client}'s key on {nodes:servers} was gone, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("expired", "lost", "deleted")},
	{text: "a release by {by:clients} deleted {a:client}'s key on {nodes:servers}, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("deleted")},
	{text: "releases by {by:clients} deleted {a:client}'s key on {nodes:servers}, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("deleted")},
	{text: "the clocks of {a:client} and {nodes:servers} disagreed, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("expired")},
	{text: "{a:client}'s clock fell behind, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("expired")},
	{text: "{session:session} learned between {t:time} s and {u:time} s that it did not hold {key:key}, before its lease was over; {reasons:readback}", check: (*oracle).checkLostEarly},
	{text: "{a:client} and {b:client} must both have held {key:key} from {t:readback} s to {u:readback} s ({span:time} s)", check: (*oracle).checkOverlap},
	{text: "{w:client} wrote after its release and overwrote {losses:readback}", check: (*oracle).checkOverrun},
	{text: "the {m:message} from {c:client} to {n:server} was held by the network for {span:time} s, so {w:client} overran its lease and overwrote {losses:readback}", check: (*oracle).checkOverrun},
	{text: "the {m:message} from {c:client} to {n:server} was lost by the network for {span:time} s, so {w:client} overran its lease and overwrote {losses:readback}", check: (*oracle).checkOverrun},
	{text: "{w:client}'s write took {span:span} to reach {n:server}, so {c:client} overran its lease and overwrote {losses:readback}", check: (*oracle).checkWriteDelay},
	{text: "{a:client} learned that it had the lock only after {a3:client}'s key on {nodes:servers} was gone, so {b:client} acquired {key:key} while {a2:client} still held it[[, and {w:client} overwrote {losses:readback}]]", check: checkSummary("expired", "lost", "deleted")},
})

var titleTemplates = compile([]template{
	{text: "{scenario:word} on {backend:word}, seed {seed:count}: {property:word} violated ({cause:word}[[, {nodes:servers}]])", check: (*oracle).checkTitle},
})

var omittedTemplates = compile([]template{
	{text: "Not shown: [[{sessions:count} other sessions of {clients:clients}]][[{session:count} other session of {clients2:clients}]][[, ]][[{faults:count} other faults]][[{fault:count} other fault]].", check: (*oracle).checkOmitted},
})

// remarkTemplates are the remarks on diagram rows, in the terminal and in Mermaid. The row provides
// the instant.
var remarkTemplates = compile([]template{
	{text: "{n:any} is killed", check: checkCrash("kill")},
	{text: "{n:any} is shut down", check: checkCrash("shutdown")},
	{text: "{n:any} starts again: {cause:readback}", check: (*oracle).checkRestart},
	{text: "{n:any} is paused", check: checkFault("pause")},
	{text: "{n:any} resumes", check: checkFaultEnd("pause")},
	{text: "{n:node} gets an unrelated key", check: checkFault("touch")},
	{text: "{n:node} lost {c:client}'s key", check: checkKeyEnd("lost")},
	{text: "{n:node} let {c:client}'s key expire early", check: (*oracle).checkEarlyExpiry},
	{text: "{c:client}'s key on {n:node} reaches its expiry", check: (*oracle).checkExpiryReached},
	{text: "{c:client}'s key is due to expire on {nodes:servers}, [[the last ]]{span:span} of true time before the client stops believing in it", check: (*oracle).checkKeyDue},
	{text: "{c:client} is cut off from {nodes:servers}", check: checkLinkFault("cut")},
	{text: "{c:client} reaches {nodes:servers} again[[, the first at {first:time} s]]", check: checkLinkFaultEnd("cut")},
	{text: "messages between {c:client} and {nodes:servers} are delayed", check: checkLinkFault("delay", "throttle")},
	{text: "messages between {c:client} and {nodes:servers} are no longer delayed[[, the first at {first:time} s]]", check: checkLinkFaultEnd("delay", "throttle")},
	{text: "messages between {c:client} and {nodes:servers} get lost", check: checkLinkFault("lose")},
	{text: "messages between {c:client} and {nodes:servers} are no longer lost[[, the first at {first:time} s]]", check: checkLinkFaultEnd("lose")},
	{text: "the network loses the {m:messages} from {c:client} to {nodes:servers}[[, the last at {u:time} s]]", check: (*oracle).checkLostRequests},
	{text: "the network loses the [[reply]][[replies]] from {nodes:servers} to {c:client}'s {m:messages}[[, the last at {u:time} s]]", check: (*oracle).checkLostReplies},
	{text: "the network holds the {m:messages} from {c:client} to {nodes:servers}[[, the last at {last:time} s]]", check: (*oracle).checkHeldRequest},
	{text: "the network holds the [[reply]][[replies]] from {nodes:servers} to {c:client}'s {m:messages}[[, the last at {last:time} s]]", check: (*oracle).checkHeldReply},
	{text: "the network delivers the {m:messages} from {c:client} to {nodes:servers}[[, the first at {first:time} s]]", check: (*oracle).checkDelivered},
	{text: "the network delivers the [[reply]][[replies]] from {nodes:servers} to {c:client}'s {m:messages}[[, the first at {first:time} s]]", check: (*oracle).checkDelivered},
	{text: "the clock of {n:any} goes wrong ({cause:readback})", check: (*oracle).checkClockWrong},
	{text: "the clock of {n:any} is corrected", check: checkFaultEnd("clock-jump", "clock-rate", "clock-slew", "clock-strobe")},
	{text: "{c:client} tries {times:times}, [[until {u:time} s, ]]with [[at most ]]{votes:count} of {of:count} votes[[: {reasons:reasons}]]", check: (*oracle).checkTries},
	{text: "{c:client} holds {key:key} until {until:time} s[[; {nodes:servers} had voted for {other:client}]]", check: (*oracle).checkAcquired},
	{text: "{c:client} holds {key:key}, no deadline[[; {nodes:servers} had voted for {other:client}]]", check: (*oracle).checkAcquired},
	{text: "BOTH {a:client} and {b:client} believe that they hold {key:key} until {u:time} s", check: (*oracle).checkBothBelieved},
	{text: "BOTH {a:client} and {b:client} must have held {key:key} until {u:time} s", check: (*oracle).checkBothHeld},
	{text: "{c:client} reads", check: checkEvent("read", "ok")},
	{text: "{c:client} checks its lease: valid[[, {left:span} left]]", check: (*oracle).checkRemaining},
	{text: "{c:client} checks: its lease has ended, so it does not write", check: checkEvent("check", "fail")},
	{text: "{c:client} is notified that it has lost {key:key}", check: checkEvent("lost", "info")},
	{text: "{c:client}'s lease ends", check: (*oracle).checkLeaseEnded},
	{text: "{c:client} releases, outcome unknown", check: (*oracle).checkReleases},
	{text: "{c:client} releases the lock", check: (*oracle).checkReleases},
	{text: "{c:client} releases a lock that it no longer holds", check: (*oracle).checkReleases},
	{text: "a release by {c:client} DELETES {other:client}'s key on {nodes:servers}[[, the first at {first:time} s]]", check: (*oracle).checkReleaseDeleted},
	{text: "accepted: version {base:count} → {result:count}", check: (*oracle).checkWrote},
	{text: "[[under way until {u:time} s: ]]ACCEPTED[[ after {late:words}]][[, based on version {base:count}]][[: {losses:losses} [[is LOST]][[are LOST]]]]", check: (*oracle).checkWrote},
	{text: "under way until {u:time} s", check: (*oracle).checkUnderWay},
	{text: "no reply[[ until {u:time} s]]", check: (*oracle).checkNoReply},
})

// labelTemplates are the labels on arrows.
var labelTemplates = compile([]template{
	{text: "acquire[[, under way until {u:time} s]]", check: checkArrow("set")},
	{text: "release[[, under way until {u:time} s]]", check: checkArrow("release")},
	{text: "write[[, under way until {u:time} s]]", check: checkArrow("write")},
	{text: "read", check: checkArrow("read")},
	{text: "ok {votes:count}/{of:count}[[, under way until {u:time} s]]", check: (*oracle).checkGranted},
	{text: "version {base:count}", check: (*oracle).checkReadVersion},
})

// row is a line of a diagram, in the terminal or in Mermaid.
type row struct {
	t    string
	from string     // the client that the arrow starts at, or ""
	to   [][]string // the names in the lanes that the arrow ends at
}

// examine compares all drawings of a run with its record.
func examine(lines []byte, title, summary string, caption []string, text, mermaid string) (*oracle, error) {
	r, err := readRecord(lines)
	if err != nil {
		return nil, err
	}
	o := &oracle{record: r, mentions: map[string]bool{}, pauseCounts: map[string]int{}, idlePauseCounts: map[string]int{}}
	o.compare(title, titleTemplates, nil)
	o.examineDescription(caption)
	o.row = nil
	o.compare(strings.ReplaceAll(summary, "\u00a0", " "), summaryTemplates, nil)
	o.examineText(text)
	o.examineMermaid(mermaid)
	return o, nil
}

// examineDescription compares the description's sentences, after replacing a leading "It" or "Its"
// with the subject of the sentence before.
func (o *oracle) examineDescription(caption []string) {
	subject, owner, lastTime := "", "", 0.0 // subject of the previous sentence, and the process that "Its" would refer to
	for _, sentence := range caption {
		o.row = nil
		full := strings.TrimSuffix(strings.ReplaceAll(sentence, "\u00a0", " "), ".")
		if rest, is := strings.CutPrefix(full, "It "); is {
			full = subject + " " + rest
		} else if rest, is := strings.CutPrefix(full, "Its "); is {
			full = owner + "'s " + rest
		}
		o.compare(full, descriptionTemplates, nil)
		subject = ""
		if m := subjectPattern.FindStringSubmatch(full); m != nil {
			subject = m[1]
		}
		owner = subject
		if m := possessivePattern.FindStringSubmatch(full); m != nil {
			owner = m[1]
		}
		if t := instantPattern.FindString(readbackPattern.ReplaceAllString(full, "")); t != "" && !strings.HasPrefix(full, "A release") {
			if seconds(t) < lastTime {
				o.fail("the sentence is out of order")
			}
			lastTime = seconds(t)
		}
	}
}

var (
	subjectPattern    = regexp.MustCompile(`^(The clock of [cn]\d+|The (?:repl(?:y|ies) from .*? to c\d+'s \w+|\w+ from c\d+ to .*?)|c\d+'s \w+ on n\d+|[cn]\d+)(?: |$)`)
	possessivePattern = regexp.MustCompile(`^([cn]\d+)'s `)
	readbackPattern   = regexp.MustCompile(`\(.*\)`)
	instantPattern    = regexp.MustCompile(`\d+\.\d\d\d\d*`)
)

// examineRow compares a diagram row. text is the label of its arrow, the remark next to it, or both.
func (o *oracle) examineRow(r *row, text string) {
	o.row = r
	label, remark := "", text
	if m := labelPattern.FindStringSubmatch(text); m != nil {
		label, remark = m[1], strings.TrimPrefix(text[len(m[1]):], ": ")
	}
	if label != "" {
		o.compare(label, labelTemplates, groups{"t": r.t})
	}
	if remark != "" {
		o.compare(remark, remarkTemplates, groups{"t": r.t})
	}
}

var (
	labelPattern     = regexp.MustCompile(`^((?:acquire|release|write|read|ok \d+/\d+|version \d+)(?:, under way until [\d.]+ s)?)(?:: |$)`)
	lanePattern      = regexp.MustCompile(`^  participant (p\d+) as (?:client|locks|storage) (.*)$`)
	notePattern      = regexp.MustCompile(`^  Note over (p\d+)(?:,p\d+)?: ([\d.]+) s (?:! )?(.*)$`)
	arrowPattern     = regexp.MustCompile(`^  (p\d+)(?:->>|-->>|-x|--x|-\))(p\d+): ([\d.]+) s (?:! )?(.*)$`)
	framePattern     = regexp.MustCompile(`^(sequenceDiagram|  rect rgba\(213, 94, 0, 0\.15\)|  end)$`)
	unescaper        = strings.NewReplacer("#35;", "#", "#58;", ":", "#59;", ";", "#39;", "'", "#40;", "(", "#41;", ")", "#34;", `"`, "#44;", ",")
	moreFactsPattern = regexp.MustCompile(`^  Note over .*: (?:… )?(\d+) more facts?`)
)

func (o *oracle) examineMermaid(text string) {
	lanes := map[string][]string{}
	before := 0.0
	for line := range strings.Lines(text) {
		line = unescaper.Replace(strings.TrimRight(line, "\n"))
		r := &row{}
		said := ""
		if m := lanePattern.FindStringSubmatch(line); m != nil {
			lanes[m[1]] = expand(m[2])
			o.checkNames(line, lanes[m[1]])
			continue
		} else if m := notePattern.FindStringSubmatch(line); m != nil {
			r.t, said = m[2], m[3]
		} else if m := arrowPattern.FindStringSubmatch(line); m != nil {
			r.t, said, r.from, r.to = m[3], m[4], lanes[m[1]][0], [][]string{lanes[m[2]]}
		} else {
			o.statement = line
			if !framePattern.MatchString(line) && !moreFactsPattern.MatchString(line) {
				o.fail("unknown kind of line")
			}
			continue
		}
		if seconds(r.t) < before-0.0005 {
			o.statement = line
			o.fail("the line is out of order")
		}
		before = seconds(r.t)
		o.examineRow(r, said)
	}
}

// checkNames checks that a lane's processes exist.
func (o *oracle) checkNames(statement string, names []string) {
	o.statement = statement
	p := o.run.Params
	for _, n := range names {
		o.values++
		if !slices.Contains(p.Clients, n) && !slices.Contains(p.Nodes, n) && n != p.Resource {
			o.fail("there is no process %s", n)
		}
	}
}

var (
	laneHeadPattern = regexp.MustCompile(`(?:client|locks|storage) [cnr]\d+(?:[ –][nr]\d+)*`)
	textRowPattern  = regexp.MustCompile(`^ *([\d.]+) `)
	wordPattern     = regexp.MustCompile(`[a-z0-9/]+(?: [\d/]+)?`)
)

// examineText compares a diagram for the terminal. Each line below the names of the lanes is a row
// with a remark on the right.
func (o *oracle) examineText(text string) {
	var at []int // columns of the lanes
	var lanes [][]string
	before := 0.0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		o.statement = line
		runes := []rune(line)
		if at == nil {
			if strings.HasPrefix(strings.TrimSpace(line), "seconds ") {
				for _, m := range laneHeadPattern.FindAllStringIndex(line, -1) {
					at = append(at, len([]rune(line[:m[0]])))
					_, names, _ := strings.Cut(line[m[0]:m[1]], " ")
					lanes = append(lanes, expand(names))
					o.checkNames(line, expand(names))
				}
			}
			continue
		}
		if strings.HasPrefix(line, "Not shown: ") {
			o.compare(line, omittedTemplates, nil)
		}
		m := textRowPattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := &row{t: m[1]}
		if seconds(r.t) < before-0.0005 {
			o.fail("the line is out of order")
		}
		before = seconds(r.t)
		end := min(at[len(at)-1]+4, len(runes))
		drawn := string(runes[at[0]:end])
		r.from, r.to = drawnArrow(runes[:end], at, lanes)
		label := wordPattern.FindString(strings.Trim(drawn, " "))
		remark := strings.TrimSpace(string(runes[end:]))
		if label != "" && remark != "" && !strings.HasPrefix(remark, label) {
			label += ": "
		} else if label != "" && strings.HasPrefix(remark, label) {
			label = ""
		}
		o.examineRow(r, label+remark)
	}
}

// drawnArrow returns the client that an arrow starts at, and the lanes with its heads.
func drawnArrow(line []rune, at []int, lanes [][]string) (from string, to [][]string) {
	source := -1
	for i, column := range at {
		if column < len(line) && strings.ContainsRune("├┤┴┬", line[column]) || column+1 < len(line) && strings.ContainsRune("─╌", line[column+1]) && (column == 0 || line[column-1] == ' ') {
			if source < 0 || slices.Contains(line, '<') {
				source = i
			}
		}
		if column > 0 && line[column-1] == '>' || column+1 < len(line) && line[column+1] == '<' {
			to = append(to, lanes[i])
		}
	}
	if source >= 0 {
		from = lanes[source][0]
	}
	return from, to
}

func (o *oracle) checkUnderWay(groups) {}

func (o *oracle) checkNoReply(g groups) {
	command := o.find(func(f *fact) bool {
		c, server := f.link()
		return c == o.row.from && f.Op != "acquire" && (server != "" && f.Sent != 0 && f.Answered == 0 && near(g["t"], f.Sent) || f.Process == c && f.Type == "invoke" && near(g["t"], f.T))
	})
	if until := g["u"]; until != "" && command != nil && o.findEvent(o.row.from, command.Op, "ok", until) != nil {
		return
	}
	if command == nil || o.find(func(f *fact) bool {
		return f.Process == o.row.from && f.Op == command.Op && f.Session == command.Session && f.Type != "invoke" && f.Type != "info" && f.T >= command.T
	}) != nil {
		o.fail("every command sent at that time got a reply")
	}
}
