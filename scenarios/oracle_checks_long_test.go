//go:build long

package scenarios_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockFaults are the faults that change a clock.
var clockFaults = []string{"clock-jump", "clock-rate", "clock-slew", "clock-strobe"}

// staysActive is the cause of an end event without effect, because a later step has the same fault.
const staysActive = "it stays in force for another step"

func checkCrash(kind string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		begin := o.faultBegin(g["n"], g["t"], kind)
		if begin == nil {
			o.fail("no %s of %s at that time", kind, g["n"])
			return
		}
		o.mentions["down "+g["n"]] = true
		if g["u"] == "" {
			return
		}
		if end := o.faultEnd(g["n"], g["u"], kind); end == nil || end.Step != begin.Step || end.Cause != g["cause"] {
			o.fail("no such restart: %+v", end)
		}
	}
}

func (o *oracle) checkRestart(g groups) {
	if end := o.faultEnd(g["n"], g["t"], "kill", "shutdown"); end == nil || end.Cause != g["cause"] {
		o.fail("no such restart: %+v", end)
	}
}

// checkFault checks when a fault on one target began and, if the sentence says so, ended.
func checkFault(kinds ...string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		if o.faultBegin(g["n"], g["t"], kinds...) == nil {
			o.fail("the fault did not begin at that time")
		}
		if g["u"] != "" && o.faultEnd(g["n"], g["u"], kinds...) == nil {
			o.fail("the fault did not end at that time")
		}
		if kinds[0] == "pause" && o.row == nil {
			o.pauseCounts[g["n"]]++
		}
	}
}

func checkFaultEnd(kinds ...string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		if end := o.faultEnd(g["n"], g["t"], kinds...); end == nil || end.Cause == staysActive {
			o.fail("no such fault ended at that time")
		}
	}
}

// checkLinkFault checks a fault on a client's links. The sentence must name all links where the
// fault began at that time.
func checkLinkFault(kinds ...string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		named := expand(g["nodes"])
		if sorted := slices.Compact(slices.Sorted(slices.Values(named))); !slices.Equal(sorted, named) {
			o.fail("names are repeated or not sorted")
		}
		for _, n := range named {
			if o.faultBegin(g["c"]+"-"+n, g["t"], kinds...) == nil {
				o.fail("no such fault on %s-%s began at that time", g["c"], n)
			}
			if g["u"] != "" && !o.endedOneOf(g["c"]+"-"+n, g, kinds...) {
				o.fail("no such fault on %s-%s ended at that time", g["c"], n)
			}
		}
		if !slices.ContainsFunc(o.facts, func(f fact) bool { // one step has exactly these links
			return f.Type == "begin" && f.Node == g["c"]+"-"+named[0] && slices.Contains(kinds, f.Op) && near(g["t"], f.T) && o.sameLinks(f, g["c"], named)
		}) {
			o.fail("the fault began on other links")
		}
	}
}

// sameLinks reports whether a begin event's step affected a client's links to exactly the named
// servers at that instant. Links where the fault ended earlier do not count, because the
// description may leave out faults that ended before it begins.
func (o *oracle) sameLinks(begin fact, client string, named []string) bool {
	ends := map[string]int64{}
	for _, f := range o.facts {
		c, server, _ := strings.Cut(f.Node, "-")
		if c != client || server == "" || f.Op != begin.Op {
			continue
		}
		if f.Type == "begin" && f.Step == begin.Step && f.T == begin.T {
			ends[server] = never
		}
		if at, affected := ends[server]; affected && at == never && f.Type == "end" && f.Cause != staysActive {
			ends[server] = f.T
		}
	}
	first := int64(never)
	for _, n := range named {
		if _, affected := ends[n]; !affected {
			return false
		}
		first = min(first, ends[n])
	}
	for n, at := range ends {
		if !slices.Contains(named, n) && at >= first {
			return false
		}
	}
	return true
}

// endedOneOf reports whether a fault ended at the printed instant or, if the sentence gives the
// first and last of several ends, between them.
func (o *oracle) endedOneOf(target string, g groups, kinds ...string) bool {
	return o.find(func(f *fact) bool {
		return f.Process == "nemesis" && f.Type == "end" && f.Cause != staysActive && f.Node == target && slices.Contains(kinds, f.Op) && (near(g["u"], f.T) || between(g["first"], g["u"], f.T))
	}) != nil
}

func checkLinkFaultEnd(kinds ...string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		found := false
		for _, n := range expand(g["nodes"]) {
			link := g["c"] + "-" + n
			found = found || o.faultEnd(link, g["t"], kinds...) != nil
			if o.find(func(f *fact) bool {
				return f.Type == "end" && f.Node == link && slices.Contains(kinds, f.Op) && f.Cause != staysActive && (math.Abs(float64(f.T)-seconds(g["t"])*1e9) < 1e6 || between(g["first"], g["t"], f.T))
			}) == nil {
				o.fail("no such fault on %s ended at that time", link)
			}
		}
		if !found {
			o.fail("no such fault ended at exactly that instant")
		}
	}
}

// findMessage finds the command whose request or reply was in flight on a link at an instant. The
// record lacks commands that a client abandoned before they reached the link. For these,
// findMessage returns the fault whose step names the message.
func (o *oracle) findMessage(link, op string, isReply bool, at int64) *fact {
	fault := o.find(func(f *fact) bool { return f.Process == "nemesis" && f.Type == "begin" && f.Node == link && f.T == at })
	for _, s := range o.run.Params.Steps {
		kind := map[bool]string{false: " request ", true: " reply "}[isReply]
		if fault != nil && s.Step == fault.Step && strings.HasPrefix(s.When, op+kind) {
			return fault
		}
	}
	return o.find(func(f *fact) bool {
		if f.Process != link || f.Op != op || f.Sent > at || f.Answered != 0 && f.Answered < at {
			return false
		}
		return isReply == (f.Applied != 0 && f.Applied <= at)
	})
}

func (o *oracle) checkLostRequests(g groups) { o.checkLost(g, false) }
func (o *oracle) checkLostReplies(g groups)  { o.checkLost(g, true) }

func (o *oracle) checkLost(g groups, isReply bool) {
	first := cmp.Or(g["t"], g["v"])
	last := cmp.Or(g["u"], first)
	op := strings.TrimSuffix(g["m"], "s")
	count, begins, ends := 0, false, false
	for _, n := range expand(g["nodes"]) {
		found := false
		for _, f := range o.facts {
			if f.Op != "drop" || f.Type != "begin" || f.Node != g["c"]+"-"+n {
				continue
			}
			if within := near(first, f.T) || near(last, f.T) || float64(f.T) > seconds(first)*1e9 && float64(f.T) < seconds(last)*1e9; !within {
				continue
			}
			if m := o.findMessage(f.Node, op, isReply, f.T); m == nil || m.Answered != 0 {
				continue
			}
			found, begins, ends = true, begins || near(first, f.T), ends || near(last, f.T)
			count++
		}
		if !found {
			o.fail("no message to or from %s was lost at that time", n)
		}
	}
	if !begins || !ends {
		o.fail("no message was lost at the first or the last instant")
	}
	plural := op != g["m"]
	if isReply {
		plural = strings.Contains(o.statement, "replies ")
	}
	if plural != (count > 1) && o.row == nil {
		o.fail("%d messages were lost", count)
	}
}

func (o *oracle) checkHeldRequest(g groups) { o.checkHeld(g, false) }
func (o *oracle) checkHeldReply(g groups)   { o.checkHeld(g, true) }

func (o *oracle) checkHeld(g groups, isReply bool) {
	for _, n := range expand(g["nodes"]) {
		link := g["c"] + "-" + n
		begin := o.find(func(f *fact) bool {
			return f.Process == "nemesis" && f.Type == "begin" && f.Op == "hold" && f.Node == link && (near(g["t"], f.T) || between(g["t"], g["last"], f.T) && g["last"] != "" || o.row != nil && math.Abs(seconds(g["t"])*1e9-float64(f.T)) < 1e6)
		})
		if begin == nil {
			o.fail("no message on %s was held at that time", link)
			continue
		}
		if o.findMessage(link, strings.TrimSuffix(g["m"], "s"), isReply, begin.T) == nil {
			o.fail("no such message was in flight")
		}
		if g["u"] != "" && !o.endedOneOf(link, g, "hold") {
			o.fail("no message on %s was delivered at that time", link)
		}
	}
}

func (o *oracle) checkDelivered(g groups) {
	for _, n := range expand(g["nodes"]) {
		link := g["c"] + "-" + n
		end := o.find(func(f *fact) bool {
			return f.Process == "nemesis" && f.Type == "end" && f.Op == "hold" && f.Node == link && (near(g["t"], f.T) || between(g["first"], g["t"], f.T))
		})
		if end == nil {
			o.fail("no message on %s was delivered at that time", link)
			continue
		}
		begin := o.find(func(f *fact) bool {
			return f.Type == "begin" && f.Op == "hold" && f.Node == link && f.Step == end.Step
		})
		if begin == nil || o.findMessage(link, strings.TrimSuffix(g["m"], "s"), strings.Contains(o.statement, "repl"), begin.T) == nil {
			o.fail("a different message was held")
		}
	}
}

func (o *oracle) checkClockWrong(g groups) {
	if begin := o.faultBegin(g["n"], g["t"], clockFaults...); begin == nil || begin.Cause != g["cause"] {
		o.fail("the record has %+v", begin)
	}
	if g["u"] != "" && o.faultEnd(g["n"], g["u"], clockFaults...) == nil {
		o.fail("the clock was not corrected at that time")
	}
}

// checkKeyEnd compares the end of a client's key on a node with the node's report.
func checkKeyEnd(what string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		if o.findKeyEnd(g, what) == nil {
			o.fail("no key of %s on %s was %s at that time", g["c"], g["n"], what)
		}
		o.mentions["key "+g["n"]+" "+what+" "+g["c"]] = true
	}
}

// checkExpiryReached checks when the node's clock reached the key's expiry time, whenever the node
// removed the key.
func (o *oracle) checkExpiryReached(g groups) {
	o.mentions["key "+g["n"]+" expired "+g["c"]] = true
	due := o.find(func(f *fact) bool {
		return f.Life != nil && f.Process == g["n"] && o.owners[f.Life.Value] == g["c"] && f.Life.Expires != 0 && near(g["t"], o.whenClockShows(g["n"], true, f.T, f.Life.Expires))
	})
	if due == nil && o.findKeyEnd(g, "expired") == nil {
		o.fail("no key of %s on %s was due to expire at that time", g["c"], g["n"])
	}
}

func (o *oracle) findKeyEnd(g groups, what string) *fact {
	return o.find(func(f *fact) bool {
		return f.Life != nil && f.Life.What == what && f.Process == g["n"] && o.owners[f.Life.Old] == g["c"] && near(g["t"], f.T)
	})
}

// checkEarlyExpiry checks that a key expired before its TTL had passed in true time.
func (o *oracle) checkEarlyExpiry(g groups) {
	checkKeyEnd("expired")(o, g)
	end := o.findKeyEnd(g, "expired")
	if end == nil {
		return
	}
	var set *fact // the last one, because a lock may set the same value in all attempts
	for i, f := range o.facts {
		if f.Life != nil && f.Life.What == "set" && f.Process == g["n"] && f.Life.Value == end.Life.Old && f.T <= end.T {
			set = &o.facts[i]
		}
	}
	if set == nil || end.T-set.T >= o.run.Params.TTL {
		o.fail("the key's TTL had passed")
	}
}

// checkKeyDue checks when a key expires by the node's clock, and for how much longer its client
// considers itself the holder.
func (o *oracle) checkKeyDue(g groups) {
	begins, ends := false, false
	for _, n := range expand(g["nodes"]) {
		for _, f := range o.facts {
			if f.Life == nil || f.Process != n || o.owners[f.Life.Value] != g["c"] || f.Life.Expires == 0 {
				continue
			}
			due := o.whenClockShows(n, true, f.T, f.Life.Expires)
			begins = begins || math.Abs(seconds(g["t"])*1e9-float64(due)) <= 1.5e6 // Redis counts in milliseconds
			for _, h := range o.holds {
				ends = ends || h.token == f.Life.Value && math.Abs(float64(h.believedUntil-due-parseSpan(g["span"]))) <= 1.5e6
			}
		}
	}
	if !begins || !ends {
		o.fail("expiry is correct: %t, remaining belief is correct: %t", begins, ends)
	}
}

// checkIdlePauses checks the number of a client's pauses without effect.
func (o *oracle) checkIdlePauses(g groups) {
	o.idlePauseCounts[g["c"]] = parseCount(g["times"])
	total := 0
	for _, f := range o.facts {
		if f.Process == "nemesis" && f.Op == "pause" && f.Type == "begin" && f.Node == g["c"] {
			total++
		}
	}
	if mentioned := o.pauseCounts[g["c"]] + o.idlePauseCounts[g["c"]]; mentioned > total {
		o.fail("the client had %d pauses, but the description mentions %d", total, mentioned)
	}
	if strings.Contains(g["times"], "more") != (o.pauseCounts[g["c"]] > 0) {
		o.fail("the description mentions %d other pauses", o.pauseCounts[g["c"]])
	}
}

func parseCount(times string) int {
	switch first, _, _ := strings.Cut(times, " "); first {
	case "once":
		return 1
	case "twice":
		return 2
	default:
		n, _ := strconv.Atoi(first)
		return n
	}
}

// holdAt finds a client's hold by the printed instant of its acquire.
func (o *oracle) holdAt(client, t string) *hold {
	for _, h := range o.holds {
		if h.client == client && near(t, h.acquiredAt) {
			return h
		}
	}
	return nil
}

func (o *oracle) checkAcquired(g groups) {
	h := o.holdAt(g["c"], g["t"])
	if h == nil || h.key != g["key"] {
		o.fail("%s did not acquire the lock at that time", g["c"])
		return
	}
	voters := o.voters(h.token, h.acquiredAt)
	if g["votes"] != "" {
		o.checkVotes(g, len(voters))
	}
	if g["left"] != "" && !near(g["left"], h.reportedDeadline-h.acquiredAt) {
		o.fail("the lock reported %d ns", h.reportedDeadline-h.acquiredAt)
	}
	if g["until"] != "" && !near(g["until"], h.deadline) {
		o.fail("the client's clock shows the deadline at %d", h.deadline)
	}
	if (g["left"] == "" && g["until"] == "") != (h.reportedDeadline == 0) {
		o.fail("the lock reported %d as its deadline", h.reportedDeadline)
	}
	o.checkSharedVoters(g, h, voters)
}

func (o *oracle) checkVotes(g groups, votes int) {
	if g["votes"] != strconv.Itoa(votes) || g["of"] != strconv.Itoa(len(o.run.Params.Nodes)) {
		o.fail("the attempt had %d of %d votes", votes, len(o.run.Params.Nodes))
	}
}

// checkSharedVoters checks which of a hold's voters had voted for an earlier hold too, whose client
// still considered itself the holder.
func (o *oracle) checkSharedVoters(g groups, h *hold, voters map[string]int64) {
	found := false
	for _, other := range o.holds {
		if other == h || other.acquiredAt > h.acquiredAt || other.client == h.client || other.key != h.key {
			continue
		}
		shared := slices.Sorted(maps.Keys(o.voters(other.token, other.acquiredAt)))
		shared = slices.DeleteFunc(shared, func(n string) bool { _, is := voters[n]; return !is })
		if other.client == g["other"] && slices.Equal(shared, expand(g["nodes"])) {
			found = true
		} else if len(o.holders) == 2 && other.believedUntil > h.acquiredAt && o.holders[0] == other && o.holders[1] == h && len(shared) > 0 && other.client != g["other"] {
			o.fail("%v had voted for %s", shared, other.client)
		}
	}
	if g["other"] != "" && !found {
		o.fail("these nodes had not voted for %s", g["other"])
	}
}

func (o *oracle) checkBothBelieved(g groups) {
	o.checkBoth(g, func(h *hold) int64 { return h.believedUntil })
}

// checkBothHeld checks when both clients held the lock. Even a client that dies or is notified of a
// loss holds the lock until its deadline or its release.
func (o *oracle) checkBothHeld(g groups) {
	o.checkBoth(g, func(h *hold) int64 { return h.heldUntil() })
}

func (o *oracle) checkBoth(g groups, endOf func(*hold) int64) {
	var closest *hold
	for i, a := range o.holds {
		for _, b := range o.holds[i+1:] {
			if !near(g["t"], b.acquiredAt) || a.key != g["key"] || b.key != a.key || a.client == b.client {
				continue
			}
			if g["a"] != "" && (g["a"] != a.client || g["b"] != b.client) {
				continue
			}
			closest = b
			if near(g["u"], min(endOf(a), endOf(b))) && a.acquiredAt <= b.acquiredAt && endOf(a) > b.acquiredAt {
				if o.row == nil {
					o.holders = []*hold{a, b}
				} else if o.holders != nil && (o.holders[0] != a || o.holders[1] != b) {
					o.fail("the description is about other holds")
				}
				return
			}
		}
	}
	o.fail("no two holds overlapped at that time; candidate: %+v", closest)
}

// findWrite finds a client's accepted write by its printed instant. In a diagram row, that is when
// the write was sent.
func (o *oracle) findWrite(client, t string) *appliedWrite {
	for i, w := range o.writes {
		if w.client != client {
			continue
		}
		at := w.at
		if o.row != nil {
			sent := o.find(func(f *fact) bool { return f.Op == "write" && f.Value == w.value && f.Sent != 0 })
			if sent == nil {
				continue
			}
			at = sent.Sent
		}
		if near(t, at) || o.row != nil && near(t, w.at) {
			return &o.writes[i]
		}
	}
	return nil
}

func (o *oracle) checkWrote(g groups) {
	client := g["c"]
	if o.row != nil {
		client = o.row.from
	}
	w := o.findWrite(client, g["t"])
	if w == nil {
		o.fail("no write of %s was accepted at that time", client)
		return
	}
	if g["base"] != "" && g["base"] != strconv.FormatInt(w.base, 10) || g["result"] != "" && g["result"] != strconv.FormatInt(w.result, 10) {
		o.fail("the write changed version %d → %d", w.base, w.result)
	}
	lost := o.lostVersions(w)
	if !sameLosses(g["losses"], lost) {
		o.fail("lost: %v", lost)
	}
	i := slices.IndexFunc(o.holds, func(h *hold) bool { return h.session == w.session })
	if i < 0 {
		o.fail("the write's session did not acquire the lock")
		return
	}
	h := o.holds[i]
	late := map[string]bool{"it was notified of the loss": h.lossTime <= w.at, "its release": h.releaseTime <= w.at, "its lease ended": h.deadline <= w.at}
	if printed := g["late"]; printed != "" && !late[printed] || printed == "" && (h.lossTime <= w.at || h.releaseTime <= w.at || h.deadline <= w.at) {
		o.fail("lease until %d, released at %d, lost at %d, written at %d", h.deadline, h.releaseTime, h.lossTime, w.at)
	}
	if u := g["u"]; u != "" && !near(u, w.at) {
		o.fail("the write arrived at %d", w.at)
	}
}

// lostVersions returns the versions that a write overwrote without having read them, by the client
// that wrote them.
func (o *oracle) lostVersions(w *appliedWrite) map[string][]int64 {
	lost := map[string][]int64{}
	for _, earlier := range o.writes {
		if earlier.result > w.base && earlier.result < w.result {
			lost[earlier.client] = append(lost[earlier.client], earlier.result)
		}
	}
	return lost
}

// sameLosses compares text such as "c1's update" or "versions 3 and 4 of c1 and version 5 of c2"
// with the lost versions.
func sameLosses(text string, lost map[string][]int64) bool {
	if client, one := strings.CutSuffix(text, "'s update"); one {
		return len(lost) == 1 && len(lost[client]) == 1
	}
	printed := map[string][]int64{}
	var versions []int64
	inRange := false
	for _, word := range strings.Fields(strings.ReplaceAll(text, ",", "")) {
		n, err := strconv.ParseInt(word, 10, 64)
		switch {
		case err == nil && inRange:
			for v := versions[len(versions)-1] + 1; v <= n; v++ {
				versions = append(versions, v)
			}
		case err == nil:
			versions = append(versions, n)
		case strings.HasPrefix(word, "c"):
			printed[word], versions = versions, nil
		}
		inRange = word == "to"
	}
	return maps.EqualFunc(printed, lost, slices.Equal[[]int64])
}

func (o *oracle) checkWriteSent(g groups) {
	w := o.find(func(f *fact) bool {
		return f.Process == g["c"] && f.Op == "write" && f.Type == "invoke" && near(g["t"], f.T)
	})
	if w == nil || slices.ContainsFunc(o.writes, func(a appliedWrite) bool { return a.value == w.Value }) {
		o.fail("there is no such write, or it arrived")
	}
}

func (o *oracle) checkLeaseEnded(g groups) {
	if !slices.ContainsFunc(o.holds, func(h *hold) bool { return h.client == g["c"] && near(g["t"], h.deadline) }) {
		o.fail("no lease of %s ended at that time", g["c"])
	}
}

// checkEvent checks a client's event.
func checkEvent(op, kind string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		if f := o.findEvent(g["c"], op, kind, g["t"]); f == nil || g["key"] != "" && f.Key != g["key"] {
			o.fail("no %q event of type %q for %s at that time", op, kind, g["c"])
		}
	}
}

func (o *oracle) findEvent(client, op, kind, t string) *fact {
	return o.find(func(f *fact) bool { return f.Process == client && f.Op == op && f.Type == kind && near(t, f.T) })
}

// checkRemaining checks the remaining time of a lease by the client's clock.
func (o *oracle) checkRemaining(g groups) {
	check := o.findEvent(g["c"], "check", "ok", g["t"])
	if check == nil {
		o.fail("no such check")
		return
	}
	i := slices.IndexFunc(o.holds, func(h *hold) bool { return h.session == check.Session })
	if i < 0 || (g["left"] == "") != (o.holds[i].reportedDeadline == 0) {
		o.fail("either the sentence or the session has no deadline")
		return
	}
	if g["left"] == "" {
		return
	}
	if left := o.holds[i].localDeadline - check.Local; !nearSpan(g["left"], left) {
		o.fail("%d ns were left", left)
	}
}

// parseSpan parses a printed duration, in nanoseconds.
func parseSpan(t string) int64 {
	d, err := time.ParseDuration(strings.ReplaceAll(t, " ", ""))
	if err != nil {
		return -never
	}
	return int64(d)
}

// nearSpan reports whether a duration can be printed as t, such as "663.082 ms".
func nearSpan(t string, ns int64) bool {
	number := strings.TrimRight(t, " nµms")
	d, err := time.ParseDuration(strings.ReplaceAll(t, " ", ""))
	if err != nil {
		return false
	}
	unit, _ := time.ParseDuration("1" + strings.TrimSpace(strings.TrimPrefix(t, number)))
	_, fraction, _ := strings.Cut(number, ".")
	// Trailing zeros are not printed, so assume at least three decimals.
	ulp := float64(unit) * math.Pow10(-max(len(fraction), 3))
	return math.Abs(float64(int64(d)-ns)) <= ulp/2+1
}

func (o *oracle) checkReleases(g groups) {
	invoke := o.findEvent(g["c"], "release", "invoke", g["t"])
	for i, f := range o.facts { // or a command of it that was sent later
		if float64(f.T) > seconds(g["t"])*1e9+5e5 {
			break
		}
		if f.Process == g["c"] && f.Op == "release" && f.Type == "invoke" && f.Value == "" && seconds(g["t"])*1e9-float64(f.T) < 6e7 {
			invoke = &o.facts[i]
		}
	}
	if sent := o.find(func(f *fact) bool {
		c, server := f.link()
		return c == g["c"] && server != "" && f.Op == "release" && near(g["t"], f.Sent) || near(g["t"], f.Applied)
	}); invoke == nil && sent != nil {
		for i, f := range o.facts {
			if f.Process == g["c"] && f.Op == "release" && f.Type == "invoke" && f.Value == "" && f.T <= max(sent.Sent, sent.Applied) {
				invoke = &o.facts[i]
			}
		}
	}
	if invoke == nil {
		o.fail("no release began at that time")
		return
	}
	kind := map[string]string{"releases, outcome unknown": "info", "releases the lock": "ok", "releases a lock that it no longer holds": "fail"}[strings.TrimPrefix(o.statement, g["c"]+" ")]
	end := o.find(func(f *fact) bool {
		return f.Process == g["c"] && f.Op == "release" && f.Session == invoke.Session && f.Type != "invoke" && f.T >= invoke.T
	})
	if end == nil && kind != "info" || end != nil && end.Type != kind {
		o.fail("the release returned %+v", end)
	}
}

func (o *oracle) checkReleaseDeleted(g groups) {
	first := o.row == nil
	ends := map[string]bool{}
	for _, n := range expand(g["nodes"]) {
		ok := false
		for _, f := range o.facts {
			if f.Life == nil || f.Life.What != "deleted" || f.Process != n || f.Life.By != g["c"]+"-"+n || o.owners[f.Life.Old] != g["other"] {
				continue
			}
			at := near(g["t"], f.T) || between(g["from"], g["to"], f.T) || o.row != nil && near(g["t"], f.Sent) || g["first"] != "" && between(g["first"], g["t"], f.T)
			sent := o.row != nil || near(g["sent"], f.Sent) || between(g["sentfrom"], g["sentto"], f.Sent)
			ok = ok || at && sent
			for _, name := range []string{"from", "to", "sentfrom", "sentto"} {
				instant := map[bool]int64{true: f.Sent, false: f.T}[strings.HasPrefix(name, "sent")]
				ends[name] = ends[name] || at && sent && near(cmp.Or(g[name], "-"), instant)
			}
			first = first || at && sent && (near(g["t"], f.T) || near(g["t"], f.Sent) || g["from"] != "")
		}
		if !ok {
			o.fail("no release deleted a key of %s on %s at that time", g["other"], n)
		}
		o.mentions["key "+n+" deleted "+g["other"]] = true
	}
	for name, is := range ends {
		if g[name] != "" && !is {
			o.fail("nothing happened at %s", g[name])
		}
	}
	if !first {
		o.fail("nothing happened at that time")
	}
}

func between(from, to string, ns int64) bool {
	return from != "" && (near(from, ns) || near(to, ns) || float64(ns) > seconds(from)*1e9 && float64(ns) < seconds(to)*1e9)
}

// checkTries checks a client's attempts: rounds of sets with at most one request per node.
func (o *oracle) checkTries(g groups) {
	last := g["u"]
	end := o.find(func(f *fact) bool {
		return f.Process == g["c"] && f.Op == "acquire" && f.Type != "invoke" && float64(f.T) > seconds(cmp.Or(last, g["t"]))*1e9-5e5
	})
	var rounds [][]fact
	for _, f := range o.facts {
		client, server := f.link()
		if client != g["c"] || server == "" || f.Op != "set" || f.Sent == 0 {
			continue
		}
		if float64(f.Sent) < seconds(g["t"])*1e9-5e5 || end != nil && f.Sent > end.T {
			continue
		}
		rounds = append(rounds, []fact{f})
	}
	slices.SortStableFunc(rounds, func(a, b []fact) int { return cmp.Compare(a[0].Sent, b[0].Sent) })
	var merged [][]fact
	for _, r := range rounds {
		if n := len(merged); n > 0 && r[0].Token == merged[n-1][0].Token && r[0].Sent-merged[n-1][0].Sent < 2*o.run.Params.NodeTimeout && !slices.ContainsFunc(merged[n-1], func(f fact) bool { return f.Process == r[0].Process }) {
			merged[n-1] = append(merged[n-1], r[0])
			continue
		}
		merged = append(merged, r)
	}
	merged = slices.DeleteFunc(merged, func(r []fact) bool { return float64(r[0].Sent) > seconds(cmp.Or(last, g["t"]))*1e9+5e5 })
	if len(merged) != parseCount(g["times"]) {
		o.fail("there were %d rounds of sets", len(merged))
	}
	maxVotes := 0
	for _, r := range merged {
		votes := 0
		for _, f := range r {
			if f.Type == "ok" && f.Answered != 0 && f.Answered-f.Sent <= o.run.Params.NodeTimeout {
				votes++
			}
		}
		maxVotes = max(maxVotes, votes)
	}
	o.checkVotes(g, maxVotes)
	o.checkReasons(g, merged)
}

var reasonPattern = regexp.MustCompile(`(refused by|nothing sent to|no link to|no connection to|no reply from|a late reply from|an error from) ([nr]\d+(?:–n\d+)?(?:(?:, | and )n\d+(?:–n\d+)?)*)(?: because of (?:(c\d+)'s key|(its own key)))?`)

// checkReasons checks why rounds had too few votes. The reason given for a node must apply in at
// least one round.
func (o *oracle) checkReasons(g groups, rounds [][]fact) {
	for _, m := range reasonPattern.FindAllStringSubmatch(g["reasons"], -1) {
		why, holder := m[1], m[3]
		if m[4] != "" {
			holder = g["c"]
		}
		for _, n := range expand(m[2]) {
			applies := slices.ContainsFunc(rounds, func(r []fact) bool {
				i := slices.IndexFunc(r, func(f fact) bool { return f.Process == g["c"]+"-"+n })
				switch {
				case i < 0:
					return why == "nothing sent to" || why == "no link to" && !o.reaches(g["c"], n) || why == "no connection to" && o.wentDown(n)
				case why == "refused by":
					return r[i].Type == "fail" && (holder == "" || o.holderOf(n, r[i].Key, r[i].Applied) == holder)
				case why == "no reply from":
					return r[i].Answered == 0
				case why == "a late reply from":
					return r[i].Answered-r[i].Sent > o.run.Params.NodeTimeout
				}
				return why == "an error from" && r[i].Cause != ""
			})
			if !applies {
				o.fail("not true: %s %s", why, n)
			}
		}
	}
}

func (o *oracle) checkSummaryLosses(g groups) {
	if g["w"] == "" {
		return
	}
	for i := range o.writes {
		w := &o.writes[i]
		if w.client != g["w"] || len(o.holders) > 0 && w.session != o.holders[0].session && w.session != o.holders[1].session {
			continue
		}
		lost := o.lostVersions(w)
		clients := slices.Sorted(maps.Keys(lost))
		text := g["losses"]
		switch {
		case len(clients) == 1 && len(lost[clients[0]]) == 1 && text == clients[0]+"'s write",
			len(clients) == 1 && len(lost[clients[0]]) > 1 && text == clients[0]+"'s writes",
			len(clients) > 1 && strings.HasPrefix(text, "writes of ") && slices.Equal(slices.Sorted(slices.Values(expand(strings.TrimPrefix(text, "writes of ")))), clients):
			return
		}
	}
	o.fail("no write of %s overwrote %s", g["w"], g["losses"])
}

// checkSummary checks which nodes voted for the later holder after the earlier holder's key had
// ended there in one of the given ways.
func checkSummary(endKinds ...string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		if len(o.holders) != 2 {
			o.fail("the description has no overlap")
			return
		}
		a, b := o.holders[0], o.holders[1]
		if g["a"] != a.client || g["a2"] != a.client || cmp.Or(g["a3"], g["a"]) != a.client || g["b"] != b.client || g["key"] != a.key {
			o.fail("the description is about %s and %s", a.client, b.client)
		}
		named := expand(g["nodes"])
		laterVotes := o.voters(b.token, b.acquiredAt)
		var ends []string
		for n := range o.voters(a.token, a.acquiredAt) {
			at, both := laterVotes[n]
			if both && o.find(func(f *fact) bool {
				return f.Life != nil && f.Process == n && slices.Contains(endKinds, f.Life.What) && f.Life.Old == a.token && f.T <= at
			}) != nil {
				ends = append(ends, n)
			}
		}
		slices.Sort(ends)
		for _, n := range ends { // the later holder acquired the lock with these nodes' votes
			if g["nodes"] != "" && !slices.Contains(named, n) {
				o.fail("%s is not named", n)
			}
		}
		for _, n := range named {
			if !slices.ContainsFunc(endKinds, func(end string) bool { return o.mentions["key "+n+" "+end+" "+a.client] }) {
				o.fail("the description does not mention that %s's key was %s on %s", a.client, endKinds, n)
			}
		}
		for _, n := range expand(o.title["nodes"]) {
			if !slices.Contains(named, n) && g["nodes"] != "" {
				o.fail("the title names %s", n)
			}
		}
		o.checkSummaryLosses(g)
	}
}

func (o *oracle) checkLostEarly(g groups) {
	client, _, _ := strings.Cut(g["session"], "/")
	call := o.find(func(f *fact) bool {
		return f.Session == g["session"] && f.Process == client && f.Type == "invoke" && near(g["t"], f.T)
	})
	result := o.find(func(f *fact) bool {
		return f.Session == g["session"] && f.Process == client && f.Type == "fail" && near(g["u"], f.T)
	})
	if call == nil || result == nil {
		o.fail("the record has %+v and %+v", call, result)
		return
	}
	acquired := o.find(func(f *fact) bool { return f.Session == g["session"] && f.Type == "ok" && f.Op == "acquire" })
	for reason := range strings.SplitSeq(g["reasons"], "; ") {
		what, nodes, _ := strings.Cut(reason, " on n")
		for _, node := range expand("n" + nodes) {
			if got := o.describeEnd(node, acquired.Token, client, g["session"], *result); got != what {
				o.fail("on %s: %q", node, got)
			}
		}
	}
}

// describeEnd says what had happened to a token on a node by the time of its reply.
func (o *oracle) describeEnd(node, token, client, session string, answered fact) string {
	description := "no key"
	for _, f := range o.facts {
		switch {
		case f.T > answered.T || f.Process != node || f.Life == nil:
		case f.Life.Value == token:
			description = "the key still existed"
		case f.Life.Old != token:
		case f.Life.What == "lost":
			description = "the key was lost in a restart"
		case f.Life.What == "expired":
			description = "the key expired early"
		case f.Life.What == "deleted":
			by, _, _ := strings.Cut(f.Life.By, "-")
			own := o.find(func(x *fact) bool {
				return x.Process == client && x.Session == session && x.Type == "invoke" && x.Op == "release" && x.T <= f.Sent
			})
			switch {
			case by == client && own != nil:
				description = fmt.Sprintf("its own release, called at %s s, deleted the key", formatInstant(own.T))
			case by == client:
				description = fmt.Sprintf("a late release of %s, sent at %s s, deleted the key", client, formatInstant(f.Sent))
			default:
				description = by + " deleted the key"
			}
		default:
			description = f.Life.What
		}
	}
	return description
}

// formatInstant formats an instant for use in a sentence.
func formatInstant(t int64) string {
	return strconv.FormatFloat(math.Round(float64(t)/1e6)/1e3, 'f', -1, 64)
}

func (o *oracle) checkOverlap(g groups) {
	if len(o.holders) != 2 || o.holders[0].client != g["a"] || o.holders[1].client != g["b"] {
		o.fail("the description is about other holds")
		return
	}
	from, to := o.holders[1].acquiredAt, min(o.holders[0].heldUntil(), o.holders[1].heldUntil())
	if math.Abs(seconds(g["t"])*1e9-float64(from)) > 5e5+1 || math.Abs(seconds(g["u"])*1e9-float64(to)) > 5e5+1 || math.Abs(seconds(g["span"])*1e9-float64(to-from)) > 5e5+1 {
		o.fail("the overlap was from %d to %d", from, to)
	}
}

// checkOverrun checks what delayed a client or its message until the client's lease had ended.
func (o *oracle) checkOverrun(g groups) {
	o.checkSummaryLosses(g)
	if g["span"] == "" {
		return
	}
	link := g["c"] + "-" + g["n"]
	if g["c"] != g["w"] || o.find(func(f *fact) bool {
		if f.Process != "nemesis" || f.Type != "begin" || f.Node != link || o.findMessage(link, g["m"], false, f.T) == nil {
			return false
		}
		return o.find(func(e *fact) bool {
			return e.Type == "end" && e.Op == f.Op && e.Node == link && e.Step == f.Step && math.Abs(float64(e.T-f.T)-seconds(g["span"])*1e9) <= 5e6+1
		}) != nil
	}) == nil {
		o.fail("no message on %s was held for so long", link)
	}
}

// checkWriteDelay checks how long a write that was sent in time was in flight.
func (o *oracle) checkWriteDelay(g groups) {
	o.checkSummaryLosses(g)
	for _, w := range o.writes {
		sent := o.find(func(f *fact) bool {
			return f.Process == g["w"]+"-"+g["n"] && f.Op == "write" && f.Value == w.value && f.Sent != 0
		})
		h := slices.IndexFunc(o.holds, func(h *hold) bool { return h.session == w.session })
		if w.client == g["w"] && g["c"] == g["w"] && sent != nil && h >= 0 && sent.Sent < o.holds[h].deadline && o.holds[h].deadline <= w.at && math.Abs(float64(w.at-sent.Sent-parseSpan(g["span"]))) <= 5e6+1 {
			return
		}
	}
	o.fail("no write of %s was in flight for so long", g["w"])
}

func (o *oracle) checkTitle(g groups) {
	p := o.run.Params
	if g["scenario"] != p.Scenario || g["backend"] != p.Backend || g["seed"] != strconv.FormatUint(p.Seed, 10) {
		o.fail("the run was %s on %s, seed %d", p.Scenario, p.Backend, p.Seed)
	}
	o.title = g
}

func (o *oracle) checkOmitted(g groups) {
	for _, c := range expand(cmp.Or(g["clients"], g["clients2"])) {
		if !slices.Contains(o.run.Params.Clients, c) {
			o.fail("there is no client %s", c)
		}
	}
}

// checkArrow checks an arrow from a client. The client must have sent a command to at least one
// node in each lane that the arrow points to.
func checkArrow(op string) func(*oracle, groups) {
	return func(o *oracle, g groups) {
		for _, lane := range o.row.to {
			sent := o.find(func(f *fact) bool {
				c, server := f.link()
				at := float64(f.Sent) - seconds(g["t"])*1e9
				return c == o.row.from && slices.Contains(lane, server) && f.Op == op && at >= -1e6 && at <= 6e7 || near(cmp.Or(g["u"], "0.000"), f.Applied)
			})
			if sent == nil && !slices.ContainsFunc(lane, func(n string) bool { return o.unreachable(o.row.from, n, g["t"]) }) {
				o.fail("%s sent no %s to %v at that time", o.row.from, op, lane)
			}
		}
	}
}

// unreachable reports whether a node was down or its link was cut. Then the record may lack a
// command, because it never reached the link.
func (o *oracle) unreachable(client, node, t string) bool {
	unreachable := false
	for _, f := range o.facts {
		if float64(f.T) > seconds(t)*1e9+5e7 {
			break
		}
		if f.Process == "nemesis" && (f.Node == node && slices.Contains([]string{"kill", "shutdown", "pause"}, f.Op) || f.Node == client+"-"+node || f.Node == client) && f.Cause != staysActive && !strings.HasPrefix(f.Op, "clock") {
			if f.Type == "begin" || f.Type == "end" && float64(f.T) < seconds(t)*1e9 {
				unreachable = f.Type == "begin"
			}
		}
	}
	return unreachable
}

func (o *oracle) checkGranted(g groups) {
	for _, to := range o.row.to {
		h := o.holdAt(to[0], cmp.Or(g["u"], g["t"]))
		if h == nil {
			o.fail("%s did not acquire the lock at that time", to[0])
			continue
		}
		o.checkVotes(g, len(o.voters(h.token, h.acquiredAt)))
	}
}

func (o *oracle) checkReadVersion(g groups) {
	for _, to := range o.row.to {
		if read := o.findEvent(to[0], "read", "ok", g["t"]); read == nil || strconv.FormatInt(read.Version, 10) != g["base"] {
			o.fail("%s read %+v", to[0], read)
		}
	}
}
