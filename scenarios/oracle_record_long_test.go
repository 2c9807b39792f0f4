//go:build long

package scenarios_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fact is a line of a record. The oracle parses lines itself, so that it shares only the file
// format with the drawing code.
type fact struct {
	N, T                                         int64
	Process, Type, Op                            string
	Key, Session, Token                          string
	ValidUntil, Local, Drift                     int64
	Wall                                         bool
	Node, Value, Cause                           string
	Version, TTL, Sent, Applied, Answered, Fence int64
	Step                                         int
	Life                                         *struct {
		What, Value, Old, By string
		Seq, Expires, Before int64
	}
	Params *struct {
		Scenario, Variant, Backend, Resource, Lock string
		Seed                                       uint64
		Clients, Nodes                             []string
		TTL, Epoch, NodeTimeout                    int64
		Steps                                      []struct {
			Step int
			When string
		}
		NoLossNotice bool `json:"untold"`
	}
}

// link splits the name of a link such as c1-n3. server is "" for other processes.
func (f fact) link() (client, server string) {
	client, server, _ = strings.Cut(f.Process, "-")
	return client, server
}

// hold is a session that acquired the lock. Times are nanoseconds since the run began.
type hold struct {
	client, session, key, token string
	acquiredAt                  int64 // when the acquire returned
	reportedDeadline            int64 // the deadline reported by the lock, in true time if the clock were correct; 0 if there is none
	deadline                    int64 // when the client's clock showed that deadline, or never
	believedUntil               int64 // when the client stopped considering itself the holder: at the deadline, its release, its death or the notification of a loss
	releaseTime                 int64 // when the client called release, or never
	lossTime                    int64 // when the lock notified the client of a loss, or never
	localDeadline               int64 // the reported deadline by the client's clock
}

// heldUntil returns until when the client must have held the lock, according to the replies it
// received. A refused release may have been refused as soon as it was called.
func (h *hold) heldUntil() int64 { return min(h.deadline, h.releaseTime) }

const never = math.MaxInt64

// appliedWrite is a write that the resource accepted. It was based on version base and created
// version result.
type appliedWrite struct {
	client, session, value string
	at, base, result       int64
}

// record is the oracle's model of a run.
type record struct {
	facts  []fact
	run    fact
	owners map[string]string // clients by the tokens they sent
	holds  []*hold
	writes []appliedWrite
}

func readRecord(lines []byte) (*record, error) {
	r := &record{owners: map[string]string{}}
	for line := range bytes.Lines(lines) {
		var f fact
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, err
		}
		r.facts = append(r.facts, f)
	}
	slices.SortStableFunc(r.facts, func(a, b fact) int {
		if a.T != b.T {
			return int(max(min(a.T-b.T, 1), -1))
		}
		return int(a.N - b.N)
	})
	r.run = r.facts[slices.IndexFunc(r.facts, func(f fact) bool { return f.Params != nil })]
	sessions := map[string]*hold{}
	for _, f := range r.facts {
		switch client, server := f.link(); {
		case server != "" && f.Op == "set" && f.Token != "":
			r.owners[f.Token] = client
		case f.Op == "acquire" && f.Type == "ok":
			h := &hold{client: f.Process, session: f.Session, key: f.Key, token: f.Token, acquiredAt: f.T, reportedDeadline: f.ValidUntil, deadline: never, believedUntil: never, releaseTime: never, lossTime: never}
			if h.token == "" { // the lock does not report its token, so use the last granted one
				h.token = r.lastToken(f.Process, f.T)
			}
			if f.ValidUntil != 0 {
				h.localDeadline = f.Local + f.ValidUntil - f.T
				h.deadline = r.whenClockShows(f.Process, f.Wall, f.T, f.Local+f.ValidUntil-f.T)
			}
			sessions[f.Session] = h
			r.holds = append(r.holds, h)
		case sessions[f.Session] == nil || server != "":
		case f.Op == "release" && f.Type == "invoke" && f.Value == "":
			sessions[f.Session].releaseTime = min(sessions[f.Session].releaseTime, f.T)
		case f.Op == "lost":
			sessions[f.Session].lossTime = min(sessions[f.Session].lossTime, f.T)
		case f.Op == "extend" && f.Type == "ok" && f.ValidUntil != 0:
			h := sessions[f.Session]
			h.localDeadline = f.Local + f.ValidUntil - f.T
			h.reportedDeadline, h.deadline = f.ValidUntil, r.whenClockShows(f.Process, f.Wall, f.T, f.Local+f.ValidUntil-f.T)
		}
	}
	for _, h := range r.holds {
		h.believedUntil = min(h.deadline, h.releaseTime, h.lossTime, r.timeOfDeath(h.client, h.acquiredAt))
	}
	r.readWrites()
	return r, nil
}

// lastToken returns the token of a client's last set that was granted before an instant.
func (r *record) lastToken(client string, by int64) (token string) {
	for _, f := range r.facts {
		if c, server := f.link(); c == client && server != "" && f.Op == "set" && f.Type == "ok" && f.Answered != 0 && f.Answered <= by {
			token = f.Token
		}
	}
	return token
}

// holderOf returns the client whose key a node had at an instant, or "".
func (r *record) holderOf(node, key string, at int64) (client string) {
	for _, f := range r.facts {
		if f.Life != nil && f.Process == node && f.Key == key && f.T <= at && f.Life.What != "kept" && f.Life.What != "expiry" {
			client = r.owners[f.Life.Value]
		}
	}
	return client
}

// readWrites reads the writes that the resource accepted. Their versions start at 1.
func (r *record) readWrites() {
	log := slices.DeleteFunc(slices.Clone(r.facts), func(f fact) bool { return f.Op != "log" || f.Type != "ok" || f.Cause != "write" })
	slices.SortStableFunc(log, func(a, b fact) int { return int(max(min(a.Applied-b.Applied, 1), -1)) })
	for i, f := range log {
		client, _, _ := strings.Cut(f.Session, "/")
		r.writes = append(r.writes, appliedWrite{client: client, session: f.Session, value: f.Value, at: f.Applied, base: f.Version, result: int64(i) + 1})
	}
}

// timeOfDeath returns when a client was first killed at or after an instant, or never.
func (r *record) timeOfDeath(client string, from int64) int64 {
	for _, f := range r.facts {
		if f.Process == "nemesis" && f.Op == "kill" && f.Type == "begin" && f.Node == client && f.T >= from {
			return f.T
		}
	}
	return never
}

// whenClockShows returns the first instant, not before from, when a clock shows the given reading.
func (r *record) whenClockShows(process string, wall bool, from, reading int64) int64 {
	at, shown, rate := from, int64(0), 1.0
	known := false
	for _, f := range r.facts { // the reading at from, according to the last change before
		if f.Op == "clock" && f.Node == process && f.Wall == wall && f.T <= from {
			shown, rate, known = f.Local+int64(math.Round(float64(from-f.T)*(1+float64(f.Drift)/1e9))), 1+float64(f.Drift)/1e9, true
		}
	}
	if !known {
		shown = r.initialReading(process, wall) + from
	}
	for _, f := range r.facts {
		if f.Op != "clock" || f.Node != process || f.Wall != wall || f.T <= from {
			continue
		}
		if due := at + int64(math.Ceil(float64(reading-shown)/rate)); due <= f.T {
			return max(due, from)
		}
		at, shown, rate = f.T, f.Local, 1+float64(f.Drift)/1e9
		if shown >= reading { // a jump skipped the reading
			return at
		}
	}
	return max(at+int64(math.Ceil(float64(reading-shown)/rate)), from)
}

// initialReading returns a client's clock reading at the start of the run.
func (r *record) initialReading(process string, wall bool) int64 {
	firstChange := int64(never)
	for _, f := range r.facts {
		if f.Op == "clock" && f.Node == process && f.Wall == wall {
			firstChange = f.T
			break
		}
	}
	for _, f := range r.facts {
		if f.Process == process && f.Local != 0 && f.Wall == wall && f.T < firstChange && f.Life == nil {
			return f.Local - f.T
		}
	}
	return r.run.Params.Epoch
}

// voters returns the nodes that had granted a token before an instant, with the times of the
// grants. A lock may use one token for many attempts, so a grant does not count if the client has
// released it or the node has refused the token after it.
func (r *record) voters(token string, by int64) map[string]int64 {
	nodes := map[string]int64{}
	sentTimes := map[string]int64{}
	for _, f := range r.facts {
		_, server := f.link()
		switch {
		case server == "" || f.Token != token || f.Sent > by || f.Sent < sentTimes[server]:
		case f.Op == "set" && f.Type == "ok" && f.Answered != 0 && f.Answered <= by:
			nodes[server], sentTimes[server] = f.Applied, f.Sent
		case f.Op == "set" || f.Op == "release":
			delete(nodes, server)
			sentTimes[server] = f.Sent
		}
	}
	return nodes
}

// find returns the first matching fact, or nil.
func (r *record) find(matches func(f *fact) bool) *fact {
	for i := range r.facts {
		if matches(&r.facts[i]) {
			return &r.facts[i]
		}
	}
	return nil
}

// faultBegin finds a fault that began on a target at a printed instant.
func (r *record) faultBegin(target, t string, kinds ...string) *fact {
	return r.find(func(f *fact) bool {
		return f.Process == "nemesis" && f.Type == "begin" && f.Node == target && slices.Contains(kinds, f.Op) && near(t, f.T)
	})
}

// faultEnd finds a fault that ended on a target at a printed instant.
func (r *record) faultEnd(target, t string, kinds ...string) *fact {
	return r.find(func(f *fact) bool {
		return f.Process == "nemesis" && f.Type == "end" && f.Node == target && slices.Contains(kinds, f.Op) && near(t, f.T)
	})
}

// near reports whether an instant can be printed as t, rounded or truncated.
func near(t string, ns int64) bool {
	_, fraction, _ := strings.Cut(t, ".")
	unit := math.Pow10(9 - len(fraction))
	return math.Abs(seconds(t)*1e9-float64(ns)) <= unit/2+1
}

func seconds(t string) float64 {
	s, err := strconv.ParseFloat(t, 64)
	if err != nil {
		return math.NaN()
	}
	return s
}

// expand returns the names in a printed list, such as "n1", "n1, n3 and n5", "n1–n3 and n5" or "n1
// n2–n4".
func expand(list string) (names []string) {
	for _, part := range strings.Fields(strings.NewReplacer(" and ", " ", ",", " ").Replace(list)) {
		first, last, span := strings.Cut(part, "–")
		if !span {
			names = append(names, part)
			continue
		}
		a, _ := strconv.Atoi(first[1:])
		b, _ := strconv.Atoi(last[1:])
		for i := a; i <= b; i++ {
			names = append(names, first[:1]+strconv.Itoa(i))
		}
	}
	return names
}
