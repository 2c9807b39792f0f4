//go:build nightly

package redlock_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMistakesAreNoticed makes one mistake after another in a Locker or in what it has nodes do,
// and expects the tests here, or those on a real server, to fail by it.
func TestMistakesAreNoticed(t *testing.T) {
	for _, m := range mistakes {
		t.Run(strings.ReplaceAll(m.it, " ", "-"), func(t *testing.T) {
			text, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), m.was); n != 1 {
				t.Fatalf("%s has %q %d times, want once: have the mistake made where the code is now", m.file, m.was, n)
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
			original, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.was, m.is, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, replace, 0o644); err != nil {
				t.Fatal(err)
			}
			tests := []string{".", "./redisnode"}
			if strings.HasPrefix(m.file, "wire/") || m.file == "driver/grants.lua" {
				tests = []string{"./wire"}
			}
			if build, err := exec.Command("go", append([]string{"test", "-run", "^$", "-overlay", overlay}, tests...)...).CombinedOutput(); err != nil {
				t.Fatalf("the mistake does not compile: %v\n%s", err, build)
			}
			out, err := exec.Command("go", append([]string{"test", "-short", "-failfast", "-timeout", "1m", "-overlay", overlay}, tests...)...).CombinedOutput()
			if err == nil {
				t.Errorf("no test notices that it %s:\n%s", m.it, out)
			}
		})
	}
}

// mistakes have something else in a file than what was there.
var mistakes = []struct{ it, file, was, is string }{
	{"gives up while a quorum is possible", "ballot.go",
		`yes+b.left < b.quorum`,
		`yes+b.left <= b.quorum`},
	{"waits for more than a quorum", "ballot.go",
		`return yes >= b.quorum ||`,
		`return yes > b.quorum ||`},
	{"sends requests by their caller's context", "ballot.go",
		`context.WithTimeout(context.WithoutCancel(ctx)`,
		`context.WithTimeout(ctx`},
	{"does not undo grants that come after the attempt", "ballot.go",
		"\tb.follow = f\n",
		""},
	{"does not abandon an attempt whose answer is missing", "locker.go",
		`func(int) bool { return a.Err != nil }).leave()`,
		`func(int) bool { return false }).leave()`},
	{"does not abandon a lease's grant whose answer is missing", "lease.go",
		`answers[n].Err != nil || repaired`,
		`answers[n].Value < 0 || repaired`},
	{"does not abandon what a repair may have set", "lease.go",
		`repaired != nil && repaired[n] }`,
		`repaired != nil && false }`},
	{"asks for each release once", "locker.go",
		"\t\tif a.Err != nil {\n\t\t\tl.owe",
		"\t\tif a.Err != nil && a.Node < 0 {\n\t\t\tl.owe"},
	{"keeps the last debt only", "locker.go",
		`append(l.owed[node], d);`,
		`append(l.owed[node][:0], d);`},
	{"pays nobody while one node is silent", "locker.go",
		`if done = false; !silent[n] {`,
		`if done = false; !slices.Contains(silent, true) {`},
	{"forgets at once what a failed attempt set", "locker.go",
		`token: token, until: start.Add(l.cfg.TTL)}`,
		`token: token, until: start}`},
	{"forgets an extension in what it owes", "lease.go",
		`until: s.until.Add(s.locker.cfg.TTL)}`,
		`until: s.start.Add(s.locker.cfg.TTL)}`},
	{"counts votes that did not confirm the fencing token", "redlock.go",
		"\n\t\tanswers[a.Node] = a\n",
		"\n\t\t_ = a\n"},
	{"leaves the confirmation out of what has elapsed", "locker.go",
		"\tfence := l.raise(p, key, token, answers)\n\telapsed := l.cfg.Now().Sub(start)\n",
		"\telapsed := l.cfg.Now().Sub(start)\n\tfence := l.raise(p, key, token, answers)\n"},
	{"takes a lock whose time is over", "locker.go",
		`judge(Count(answers), elapsed)`,
		`judge(Count(answers), 0*elapsed)`},
	{"gives a lock to a caller who is gone", "locker.go",
		`if kind == nil && twice == nil && p.ended() == nil {`,
		`if kind == nil && twice == nil {`},
	{"believes without the allowance for drift", "lease.go",
		`		until: start.Add(c.cfg.TTL - c.cfg.drift())}`,
		`		until: start.Add(c.cfg.TTL)}`},
	{"believes an extension without the allowance for drift", "lease.go",
		`if until := start.Add(cfg.TTL - cfg.drift()); until`,
		`if until := start.Add(cfg.TTL); until`},
	{"believes an extension that came after the deadline", "lease.go",
		`if !end.Before(h.until) || Validity`,
		`if Validity`},
	{"extends for ever", "lease.go",
		`case h.extends >= cfg.Extends, cfg.MaxHold`,
		`case cfg.MaxHold`},
	{"counts the longest hold from now", "lease.go",
		`.Sub(h.start) > cfg.MaxHold`,
		`.Sub(start) > cfg.MaxHold`},
	{"goes on renewing at the limit", "lease.go",
		`ok && err.Kind == ErrLimit {`,
		`ok && err.Kind == nil {`},
	{"tells nobody of a loss", "lease.go",
		"\t\t\ts.over(ErrLost)\n",
		""},
	{"repairs nodes that said nothing", "lease.go",
		`if a.No() && !s.released`,
		`if !a.Yes() && !s.released`},
	{"repairs a lock that is lost", "lease.go",
		`if err == nil && l.cfg.Repair {`,
		`if l.cfg.Repair {`},
	{"repairs without waiting for all", "lease.go",
		"\t\tquorum = all\n",
		"\t\tquorum = Quorum(len(l.all))\n"},
	{"counts a repair as a grant", "lease.go",
		`terms.Fence, terms.Quarantine = false, 0`,
		`terms.Quarantine = 0`},
	{"has a quarantine refuse a repair", "lease.go",
		`terms.Fence, terms.Quarantine = false, 0`,
		`terms.Fence = false`},
	{"ends a context at its first deadline", "lease.go",
		`} else if s.ended(now) == nil {`,
		`} else if s.over(ErrExpired); s.ended(now) == nil {`},
	{"leaves the end of a context to its timer", "lease.go",
		`c.lease.ended(c.lease.locker.cfg.Now())`,
		`c.lease.ended(time.Time{})`},
	{"does not end a context at its deadline", "lease.go",
		"\t\tctx.end(cause)\n",
		""},
	{"says that a lease goes on that another goroutine has found expired", "lease.go",
		"\t\tc.end(cause) //",
		"\t\t//"},
	{"leaves the end of Do's context to a timer", "locker.go",
		"\twithin = &leaseContext{Context: within, lease: lease, end: stop}\n",
		""},
	{"extends a lease whose context has ended", "lease.go",
		"\tif h.cause != nil {\n\t\treturn h.cause\n\t}\n\tif !end",
		"\tif !end"},
	{"does not look sooner for a lease that ends sooner", "lease.go",
		`case w.leases[0] == s:`,
		`case w.leases == nil:`},
	{"does not tell the work of its lock's end", "locker.go",
		`func() { stop(context.Cause(lease.Context())) }`,
		`func() {}`},
	{"takes one Redis twice", "locker.go",
		`had && other != node {`,
		`had && other == len(l.all) {`},
	{"does not await its clean-up", "locker.go",
		`go func() { l.work.Wait(); close(answered)`,
		`go func() { close(answered)`},
	{"counts the vote of a node that does not say who it is", "locker.go",
		"\t\t\tif a.Err != nil {\n\t\t\t\tanswers[a.Node] = a",
		"\t\t\tif a.Err == ErrSameNode {\n\t\t\t\tanswers[a.Node] = a"},
	{"does not ask who has granted late", "locker.go",
		`grants.then(l.greet(p.Context))`,
		`_ = l.greet`},
	{"grants an abandoned token", "driver/grant.lua",
		`redis.call("exists", KEYS[3]) == 1`,
		`redis.call("exists", KEYS[3]) == 2`},
	{"leaves no tombstone", "driver/abandon.lua",
		"redis.call(\"set\", KEYS[2], \"\", \"PX\", ARGV[2])\n",
		""},
	{"keeps tombstones a thousand times as long", "driver/abandon.lua",
		`"PX", ARGV[2]`,
		`"EX", ARGV[2]`},
	{"counts from zero", "driver/grant.lua",
		`if count == 1 then`,
		`if count == 0 then`},
	{"refuses its own token", "driver/grant.lua",
		`if redis.call("get", KEYS[1]) ~= ARGV[1] then`,
		`if ARGV[1] then`},
	{"lets a node vote that nobody knows", "driver/grant.lua",
		`if redis.call("get", KEYS[4]) ~= id then`,
		`if (redis.call("get", KEYS[4]) or id) ~= id then`},
	{"grants together what is taken", "driver/grants.lua",
		`if value == token then`,
		`if value then`},
	{"counts together from zero", "driver/grants.lua",
		`if answer == 1 then`,
		`if answer == 0 then`},
	{"lets a node vote together that nobody knows", "driver/grants.lua",
		`if call("get", known) ~= id then`,
		`if (call("get", known) or id) ~= id then`},
	{"fails all grants by one", "driver/grants.lua",
		`local value = redis.pcall("get", key)`,
		`local value = call("get", key)`},
	{"grants on others' terms", "wire/wire.go",
		`|| k > 0 && b.grants[0].r.Terms != e.r.Terms`,
		``},
	{"asks again for grants that are released", "wire/conn.go",
		`e.r != nil && !n.isReleased(e.r.Token)`,
		`e.r != nil`},
	{"takes what was extended for never set", "wire/conn.go",
		`e.r != nil && sets(e.r.Op) &&`,
		`e.r != nil &&`},
	{"has a quarantine of no length", "driver/grant.lua",
		"    redis.call(\"set\", KEYS[5], id, \"PX\", quarantine)\n",
		""},
}
