package page

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// badge is a short label with a tone, which determines its color.
type badge struct{ Tone, Text string }

// Tones. They are class names in page.css.
const (
	toneCalm  = "calm"
	toneGood  = "good"
	toneAlarm = "alarm"
	toneDoubt = "doubt"
)

// subject returns the scenario and variant, such as "gc-pause-after-acquire/fenced".
func subject(r outcome.Run) string {
	p := r.History.Params
	s := cmp.Or(p.Scenario, "unnamed run")
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return name(s)
}

// backendAndSeed returns, for example, "on sim, seed 1".
func backendAndSeed(r outcome.Run) string {
	if p := r.History.Params; p.Backend != "" {
		return fmt.Sprintf("on %s, seed %d", name(p.Backend), p.Seed)
	}
	return ""
}

func title(r outcome.Run) string { return display.Join(" ", subject(r), backendAndSeed(r)) }

// leadSentence summarizes the verdict. For a violation, it states the cause and the effect.
func leadSentence(p Page) string {
	r := p.Run
	if r.Verdict.Inconclusive() {
		return plainText("Inconclusive: " + strings.TrimSuffix(r.Verdict.Assumption, ".") + ".")
	}
	if first := shownResult(r); first != nil {
		return plainText(display.Sentence(cmp.Or(p.Diagram.Summary, first.Because)))
	}
	s := "No violation found in this run under these faults."
	if len(r.History.Params.Steps) == 0 {
		s = "No violation found in this run, which had no planned faults."
	}
	for _, j := range r.Outcome.Judgements {
		if j.Missed {
			s += fmt.Sprintf(" %s was expected to be %s but was not.", j.Property, j.Expected)
		} else if j.Got == verdict.NotExercised && !j.AsExpected {
			s += fmt.Sprintf(" %s was not exercised: %s.", j.Property, strings.TrimSuffix(j.Because, "."))
		} else if j.Got == verdict.Undecided && !j.AsExpected {
			s += fmt.Sprintf(" %s is inconclusive: %s.", j.Property, strings.TrimSuffix(j.Because, "."))
		}
	}
	return plainText(s)
}

// violationSummary states which properties were violated and whether that was expected.
func violationSummary(r outcome.Run) string {
	expected, unexpected, informational := violatedProperties(r)
	var parts []string
	for _, p := range []struct {
		props []string
		how   string
	}{{unexpected, "unexpectedly"}, {expected, "as expected"}, {informational, "(informational)"}} {
		if len(p.props) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s violated %s", display.List(p.props), wasOrWere(len(p.props)), p.how))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return plainText(strings.Join(parts, "; ") + ".")
}

// tone returns the CSS class of the page header, which highlights unexpected violations.
func tone(r outcome.Run) string {
	if _, unexpected, _ := violatedProperties(r); len(unexpected) > 0 {
		return "unexpected"
	}
	return ""
}

func wasOrWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// violatedProperties groups the violated properties by expectation. Properties without an
// expectation are informational.
func violatedProperties(r outcome.Run) (expected, unexpected, informational []string) {
	for _, res := range r.Verdict.Results {
		if res.Outcome != verdict.Violated {
			continue
		}
		switch j := r.Outcome.JudgementOf(res.Property); {
		case j == nil || j.AsExpected && (j.Expected == "" || j.Expected == outcome.AnyOutcome):
			informational = append(informational, res.Property)
		case j.AsExpected:
			expected = append(expected, res.Property)
		default:
			unexpected = append(unexpected, res.Property)
		}
	}
	return expected, unexpected, informational
}

// shownResult returns the result to show in the header: the first violation with a witness or, if
// there is none, the first violation.
func shownResult(r outcome.Run) *verdict.Result {
	if res := sequence.ShownResult(r.Verdict); res != nil {
		return res
	}
	if i := slices.IndexFunc(r.Verdict.Results, func(res verdict.Result) bool { return res.Outcome == verdict.Violated }); i >= 0 {
		return &r.Verdict.Results[i]
	}
	return nil
}

// badges returns one label that states both what happened and whether that was expected, and a
// second one if the record is truncated.
func badges(r outcome.Run) []badge {
	out := []badge{verdictBadge(r)}
	if r.Verdict.Cut != "" {
		out = append(out, badge{toneDoubt, "Record truncated"})
	}
	return out
}

func verdictBadge(r outcome.Run) badge {
	expected, unexpected, informational := violatedProperties(r)
	state := r.Outcome.State()
	switch {
	case r.Verdict.Inconclusive():
		return badge{toneDoubt, "Inconclusive"}
	case r.Manifest != nil && state != outcome.StateAsExpected && state != outcome.StateInformational && state != outcome.StateUnexpected && state != outcome.StateUndecided:
		return badge{toneAlarm, strings.ToUpper(state[:1]) + state[1:]}
	case len(unexpected) > 0:
		return badge{toneAlarm, "Unexpected violation"}
	case r.Manifest != nil && state == outcome.StateUnexpected:
		return badge{toneAlarm, "Not as expected"}
	case r.Manifest != nil && state == outcome.StateUndecided:
		return badge{toneDoubt, "Inconclusive"}
	case len(expected) > 0:
		return badge{toneGood, "Expected violation"}
	case len(informational) > 0 && r.Manifest == nil:
		return badge{toneAlarm, "Violation"} // the expectations are unknown
	case len(informational) > 0:
		return badge{toneCalm, "Violation, informational"}
	}
	return badge{toneGood, "No violation found"}
}

func setup(r outcome.Run) []term {
	p := r.History.Params
	out := []term{}
	add := func(title, text string) {
		if text != "" {
			out = append(out, term{Name: title, Text: text})
		}
	}
	lock := name(p.Lock)
	if p.TTL > 0 {
		lock += ", TTL " + display.Duration(int64(p.TTL))
		for _, own := range p.TTLs {
			lock += fmt.Sprintf(", %s's TTL %s", name(own.Client), display.Duration(int64(own.TTL)))
		}
	}
	add("Lock", strings.TrimPrefix(lock, ", "))
	nodes := display.Plural(len(p.Nodes), "node")
	if p.Persistence != "" {
		nodes += ", persistence " + name(p.Persistence)
	}
	add("Nodes", nodes)
	add("Clients", display.GroupDigits(len(p.Clients)))
	if p.Fence != "" && p.Resource != "" {
		add("Fence", name(p.Fence))
	}
	add("Backend", name(p.Backend))
	if p.Backend != "" {
		add("Seed", fmt.Sprint(p.Seed))
	}
	events := r.History.Events
	if n := len(events); n > 0 {
		add("Record", fmt.Sprintf("%s, %s of true time", display.Plural(n, "event"), display.Duration(max(events[n-1].T, 0))))
	}
	return out
}

func claim(r outcome.Run) string {
	if r.Manifest == nil {
		return ""
	}
	return plainText(r.Manifest.Scenario.Claim)
}

// linkedText is text that may be a link.
type linkedText struct{ Text, URL string }

var webAddress = regexp.MustCompile(`https?://[^\s()<>"'\x60]+[^\s()<>"'\x60.,;:]`)

// sourceLinks splits the claim's source into plain text and links. Only web addresses become links.
func sourceLinks(r outcome.Run) []linkedText {
	if r.Manifest == nil {
		return nil
	}
	text := plainText(r.Manifest.Scenario.Source)
	var out []linkedText
	at := 0
	for _, m := range webAddress.FindAllStringIndex(text, -1) {
		out = append(out, linkedText{Text: text[at:m[0]]}, linkedText{Text: text[m[0]:m[1]], URL: text[m[0]:m[1]]})
		at = m[1]
	}
	if at < len(text) {
		out = append(out, linkedText{Text: text[at:]})
	}
	return out
}

// errorLines lists a disagreement between the two judges and other errors. The page shows them above
// everything else but the header.
func errorLines(r outcome.Run) []string {
	var out []string
	if d := r.Verdict.Disagreement; d != "" {
		out = append(out, plainText("The two judges disagree. This is a bug in lockpick; trust neither result. "+display.Sentence(d)))
	}
	for line := range strings.SplitSeq(r.Outcome.Error, "\n") {
		if line != "" && !strings.Contains(line, "judges disagree") {
			out = append(out, plainText(display.Sentence(line)))
		}
	}
	return out
}

type result struct {
	Property, Expected, Got, Mark, Tone string
	AsExpected, ExpectedTone            string
	Sort                                string // safety, liveness or number
	Because, Cause, Checked             string
	NotExercised                        bool
	Witness                             []ref
	Losses                              []lossRow
	Confirmed                           string // result of a rerun without the cause
	Range                               string // section of the timeline, as "FROM-TO" in seconds
}

var outcomeBadges = map[verdict.Outcome]badge{
	verdict.Holds: {toneGood, "✓"}, verdict.Violated: {toneAlarm, "✗"}, verdict.Undecided: {toneDoubt, "?"}, verdict.NotExercised: {toneCalm, "–"},
}

// resultRows returns the table of properties and bounded numbers. Violations come first, and
// properties that were not exercised last.
func resultRows(r outcome.Run, rows map[int64]bool) (all []result) {
	for _, j := range r.Outcome.Judgements {
		if j.Number != nil {
			all = append(all, boundResult(j))
		} else {
			all = append(all, newResult(j, r.Verdict.Result(j.Property), rows))
		}
	}
	for _, res := range r.Verdict.Results {
		if r.Outcome.JudgementOf(res.Property) == nil { // no expectation
			all = append(all, newResult(outcome.Judgement{Property: res.Property, Got: res.Outcome, Cause: res.Cause, Node: res.Node,
				Because: res.Because, AsExpected: true}, &res, rows))
		}
	}
	rank := func(x result) int {
		switch {
		case x.NotExercised:
			return 4
		case x.ExpectedTone == toneAlarm:
			return 0
		}
		return slices.Index([]string{toneAlarm, toneDoubt, toneGood}, x.Tone) + 1
	}
	slices.SortStableFunc(all, func(x, y result) int { return cmp.Compare(rank(x), rank(y)) })
	return all
}

func newResult(j outcome.Judgement, res *verdict.Result, rows map[int64]bool) result {
	x := newBaseResult(j)
	x.Because = plainText(display.Sentence(j.Because))
	x.Cause = name(j.Cause)
	if j.Node != "" {
		x.Cause += " at " + name(j.Node)
	}
	if res == nil {
		return x
	}
	x.Checked = describeChecks(res)
	x.Losses = lossRows(res, rows)
	if c := j.Confirmation; c != nil {
		x.Confirmed = plainText(string(c.State) + ": " + c.Why + ".")
	}
	if w := res.Witness; w != nil {
		x.Witness = refs(w.Events, rows)
		margin := max((w.To-w.From)/5, 50e6)
		x.Range = display.Decimal(max(w.From-margin, 0), 3) + "-" + display.Decimal(w.To+margin, 3)
	}
	return x
}

// describeChecks states how often a property was exercised and how often it was violated.
func describeChecks(res *verdict.Result) string {
	if res.Occasions == 0 {
		return "never"
	}
	s := display.Times(res.Occasions)
	if res.Incidents > 0 {
		s += ", violated " + display.Times(res.Incidents)
	}
	return s
}

// lossRow states what happened to the first holder's key on a node that granted the lock to both
// clients.
type lossRow struct {
	Node, Cause, Steps string
	Fact               ref
}

func lossRows(res *verdict.Result, rows map[int64]bool) (all []lossRow) {
	for _, l := range res.Losses {
		x := lossRow{Node: name(l.Node), Cause: name(l.Cause)}
		if l.Fact > 0 {
			x.Fact = refs([]int64{l.Fact}, rows)[0]
		}
		var steps []string
		for _, s := range l.Steps {
			if s == history.UnplannedStep {
				steps = append(steps, "an unplanned fault")
			} else {
				steps = append(steps, fmt.Sprintf("step %d", s))
			}
		}
		x.Steps = display.List(steps)
		all = append(all, x)
	}
	return all
}

func boundResult(j outcome.Judgement) result {
	x := newBaseResult(j)
	x.Sort = "number"
	x.Got, x.Mark, x.Tone = outcome.FormatNumber(j.Number.Value), "✓", toneGood
	if j.Got == verdict.Undecided {
		x.Got, x.Mark, x.Tone = "unknown", "?", toneDoubt
	} else if !j.AsExpected {
		x.Mark, x.Tone = "✗", toneAlarm
	}
	x.Because = plainText(display.Sentence(j.Because))
	return x
}

func newBaseResult(j outcome.Judgement) result {
	appearance := outcomeBadges[j.Got]
	x := result{Property: name(j.Property), Sort: "safety", NotExercised: j.Got == verdict.NotExercised, Expected: name(j.Expected), Got: j.Got.String(), Mark: appearance.Text, Tone: appearance.Tone}
	if checker.Liveness(j.Property) {
		x.Sort = "liveness"
	}
	switch {
	case j.Expected == "":
		x.Expected, x.AsExpected, x.ExpectedTone = "no expectation", "–", toneCalm
	case j.Expected == outcome.AnyOutcome:
		x.AsExpected, x.ExpectedTone = "–", toneCalm
	case j.Pending():
		x.AsExpected, x.ExpectedTone = "depends on another run", toneDoubt
	case j.AsExpected && j.Got == verdict.NotExercised:
		x.AsExpected, x.ExpectedTone = "– not required", toneCalm
	case j.AsExpected:
		x.AsExpected, x.ExpectedTone = "–", toneGood // the outcome and the expectation say so
	case j.Unresolved():
		x.AsExpected, x.ExpectedTone = "? inconclusive", toneDoubt
	default:
		x.AsExpected, x.ExpectedTone = "! not as expected", toneAlarm
	}
	return x
}
