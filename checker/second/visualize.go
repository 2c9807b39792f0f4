package second

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/anishathalye/porcupine"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Limits on porcupine's picture. The search is exponential in the number of unknown outcomes, so
// these have a separate limit.
const (
	pictureOperations = 200
	pictureUnknown    = 10
	pictureTimeout    = 10 * time.Second // in real time; the selection usually takes milliseconds
)

// Visualize writes porcupine's page about a violation as self-contained HTML. The page shows the
// witness against mutual-exclusion or, if that holds, against lease-linearizable, with neighboring
// sessions of the same lock and the spans during which clients believed they held it. Visualize
// writes nothing and returns false if neither property is violated, if porcupine does not finish in
// time, or if a lock without loss notifications violates only mutual-exclusion, which a lease lock
// may do. Porcupine's order is not deterministic, so the bytes differ from call to call. Do not
// call it inside a bubble of virtual time.
func Visualize(w io.Writer, h *history.History, v verdict.Verdict) (shown bool, err error) {
	res := resultToDraw(h, v)
	if res == nil {
		return false, nil
	}
	defer func() {
		if p := recover(); p != nil {
			shown, err = false, fmt.Errorf("draw %s: the checker failed: %v", res.Property, p)
		}
	}()
	shown, err = draw(w, facts.Read(h), res)
	if err != nil {
		return false, fmt.Errorf("draw %s: %w", res.Property, err)
	}
	return shown, nil
}

func resultToDraw(h *history.History, v verdict.Verdict) *verdict.Result {
	for _, name := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable} {
		if r := v.Result(name); r != nil && !isInvisible(h.Params, name) && r.Outcome == verdict.Violated && r.Witness != nil {
			return r
		}
	}
	return nil
}

// draw draws the witness with its neighbors, or the witness alone if that takes too long.
func draw(w io.Writer, r *facts.Facts, res *verdict.Result) (shown bool, err error) {
	witnesses := witnesses(r, res.Witness)
	if len(witnesses) == 0 {
		return false, errors.New("the witness belongs to a different history")
	}
	for _, ss := range [][]*facts.Session{selectSessions(r, res.Witness), witnesses} {
		model, ops := pictureOps(r, ss)
		answer, info := porcupine.CheckOperationsVerbose(model, ops, pictureTimeout)
		switch answer {
		case porcupine.Ok:
			return false, errors.New("porcupine finds nothing wrong")
		case porcupine.Unknown:
			continue
		}
		info.AddAnnotations(annotations(r, ss, res))
		err := porcupine.Visualize(model, info, w)
		return err == nil, err
	}
	return false, nil
}

func witnesses(r *facts.Facts, w *verdict.Witness) []*facts.Session {
	var out []*facts.Session
	for _, name := range w.Sessions {
		if s := r.SessionByName(name); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// selectSessions returns the witness's sessions and as many of the lock's other sessions as fit,
// the closest in time first. It takes whole sessions, because a session without its release would
// seem to hold the lock.
func selectSessions(r *facts.Facts, w *verdict.Witness) []*facts.Session {
	selected := witnesses(r, w)
	numOperations, numUnknown := 0, 0
	fits := func(s *facts.Session) bool {
		ops := questionsOf(r, s, 1)
		n := 0
		for _, o := range ops {
			if o.Input.(Question).Outcome == history.Info {
				n++
			}
		}
		if len(ops) == 0 || numOperations+len(ops) > pictureOperations || n > 0 && numUnknown+n > pictureUnknown {
			return false
		}
		numOperations, numUnknown = numOperations+len(ops), numUnknown+n
		return true
	}
	for _, s := range selected {
		fits(s)
	}
	var others []*facts.Session
	for s := range r.Lock(w.Key).Sessions() {
		if !slices.Contains(selected, s) {
			others = append(others, s)
		}
	}
	distance := func(s *facts.Session) int64 { return max(s.Acquire.Call.T-w.To, w.From-s.Acquire.Call.T, 0) }
	slices.SortStableFunc(others, func(a, b *facts.Session) int { return cmp.Compare(distance(a), distance(b)) })
	for _, s := range others {
		if numOperations == pictureOperations {
			break
		}
		if fits(s) {
			selected = append(selected, s)
		}
	}
	slices.SortStableFunc(selected, func(a, b *facts.Session) int { return verdict.ByTime(a.Acquire.Call, b.Acquire.Call) })
	return selected
}

// pictureOps translates sessions for porcupine and returns a model that describes them. Each client
// has a row, and gets another one after an operation that never returned.
func pictureOps(r *facts.Facts, ss []*facts.Session) (porcupine.Model, []porcupine.Operation) {
	names := make([]string, len(ss)+1)
	var ops []porcupine.Operation
	for i, s := range ss {
		names[i+1] = escape(s.Name())
		ops = append(ops, questionsOf(r, s, i+1)...)
	}
	sortByNumber(ops)
	assignRows(ops)
	model := Model
	model.DescribeOperation = func(input, _ any) string { return input.(Question).describe(names) }
	model.DescribeState = func(state any) string { return describeStates(state.(modelState).leases, names) }
	model.DescribeOperationMetadata = func(client any) string { return "client " + escape(client.(string)) }
	return model, ops
}

// assignRows assigns each operation to the first free row of its client.
func assignRows(ops []porcupine.Operation) {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ops[a].Call, ops[b].Call) })
	rows := map[string][]int{} // by client
	var ends []int64           // by row
	for _, i := range order {
		o := &ops[i]
		client := o.Metadata.(string)
		k := slices.IndexFunc(rows[client], func(row int) bool { return ends[row] < o.Call })
		if k < 0 {
			k = len(rows[client])
			rows[client] = append(rows[client], len(ends))
			ends = append(ends, 0)
		}
		o.ClientId = rows[client][k]
		ends[o.ClientId] = o.Return
	}
}

func (o Question) describe(names []string) string {
	text := names[o.Owner] + " " + o.Op
	switch {
	case o.Outcome == history.Info:
		return text + ": unknown"
	case o.Outcome == history.Fail:
		return text + ": not held"
	case o.Op != history.OpRelease && o.Expiry != facts.Never:
		return text + ": ok until " + facts.Seconds(o.Expiry)
	}
	return text + ": ok"
}

// describeStates lists a lock's possible states.
func describeStates(states []lease, names []string) string {
	var parts []string
	for _, s := range states {
		text := "free"
		switch {
		case s.owner == 0:
		case s.expiry == facts.Never:
			text = "held by " + names[s.owner]
		case s.expiry < 0:
			text = "held by " + names[s.owner] + ", which may have lost it"
		default:
			text = "held by " + names[s.owner] + ", until at least " + facts.Seconds(s.expiry)
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", or ")
}

// annotations returns marks for the violation and for the spans during which clients believed they
// held the lock.
func annotations(r *facts.Facts, ss []*facts.Session, res *verdict.Result) []porcupine.Annotation {
	ε := int64(r.Params.StampError)
	var out []porcupine.Annotation
	for _, s := range ss {
		for w := range r.Windows(s) {
			if w.From+ε >= w.To-ε {
				continue
			}
			out = append(out, porcupine.Annotation{Tag: escape(s.Client()) + "'s belief", Start: w.From + ε, End: w.To - ε,
				Description: "belief in session " + escape(s.Name()), BackgroundColor: "#cfe8cf",
				Details: fmt.Sprintf("%s believes that it holds %s, from %s to %s", escape(s.Client()), escape(verdict.LockName(s.Key())), facts.Seconds(w.From+ε), facts.Seconds(w.To-ε))})
		}
	}
	return append(out, porcupine.Annotation{Tag: "violated", Start: res.Witness.From, End: res.Witness.To,
		Description: res.Property, Details: fmt.Sprintf("from %s to %s", facts.Seconds(res.Witness.From), facts.Seconds(res.Witness.To)), BackgroundColor: "#d03030", TextColor: "#ffffff"})
}

// maxNameLen limits names in a picture, in bytes.
const maxNameLen = 40

// escape escapes a name so that a browser shows it and never interprets it. Porcupine's page
// contains its data as JSON, which escapes everything that could end the script, but the script
// inserts the descriptions of states and clients as HTML.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case b.Len() > maxNameLen:
			return b.String() + "…"
		case !unicode.IsPrint(r) || strings.ContainsRune("<>&\"`", r) || r == unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
