package campaign_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// commandLock is a single-node lock that sends another command before each acquire.
type commandLock struct {
	lock.Lock
	env  lock.Env
	args []string
}

func (a commandLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	conn, err := a.env.Dial(ctx, "tcp", a.env.Nodes[0].Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "*%d\r\n", len(a.args))
	for _, arg := range a.args {
		fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := conn.Read(make([]byte, 512)); err != nil { // any reply will do
		return nil, err
	}
	return a.Lock.Acquire(ctx, key)
}

func commandKind(args []string) lock.Kind {
	return lock.Kind{New: func(e lock.Env) (lock.Lock, error) {
		l, err := kinds.All["single"].New(e)
		return commandLock{l, e, args}, err
	}}
}

// commandScenario uses commandLock.
const commandScenario = `
name: extra-command
claim: A lock sends a command.
source: the harness itself
topology: {nodes: 1, persistence: none}
lock: {kind: extra-command, ttl: 10s, timeout: 50ms, retry: 50ms..250ms}
clients: 2
workload: {kind: read-modify-write, keys: 1, fence: none, think: 0s, hold: 100ms, cycles: 2}
expect: {mutual-exclusion: holds}
`

// If a lock uses a command that the simulation does not support, the run is undecided and names the
// command. Commands that Redis would reject are not reported.
func TestUnsupportedCommandsAreUndecided(t *testing.T) {
	for _, c := range []struct {
		args        []string
		unsupported string // "" means none
	}{
		{[]string{"SET", "other", "x", "PX", "1000"}, ""},
		{[]string{"MSET", "other", "x"}, "MSET"},
		{[]string{"psubscribe", "x"}, "PSUBSCRIBE"},
		{[]string{"PSETEX", "other", "1000", "x"}, "PSETEX"},
		{[]string{"EVAL", "return redis.call('PTTL', KEYS[1])", "1", "other"}, ""},
		{[]string{"EVAL", "return redis.call('SETEX', KEYS[1], '10', 'x')", "1", "other"}, "SETEX"},
		{[]string{"EVAL", "return redis.pcall('ZADD', KEYS[1], '10', 'x')", "1", "other"}, "ZADD"},
		{[]string{"EVAL", "return cjson.encode({})", "0"}, "cjson in scripts"},
		{[]string{"EVAL", "redis.replicate_commands() return 1", "0"}, "redis.replicate_commands in scripts"},
		{[]string{"EVAL", "return redis.setnone", "0"}, ""},
		{[]string{"EVAL", "return nothing_of_the_sort", "0"}, ""},
		{[]string{"EVAL", "return redis.call('NOTHING')", "0"}, ""},
		{[]string{"EVAL_RO", "return 1", "0"}, "EVAL_RO"},
		{[]string{"CONFIG", "SET", "maxmemory", "1"}, "CONFIG SET"},
		{[]string{"CLIENT", "NO-EVICT", "ON"}, "CLIENT NO-EVICT"},
		{[]string{"CLIENT", "MAINT_NOTIFICATIONS", "ON"}, ""}, // new in Redis 8, and sent by libraries by default
		{[]string{"CLIENT", "SETINFO", "LIB-NAME", "x"}, ""},
		{[]string{"INFO", "replication"}, "INFO REPLICATION"},
		{[]string{"INFO", "server"}, ""},
		{[]string{"SELECT", "3"}, "SELECT 3"},
		{[]string{"SELECT", "16"}, ""},
		{[]string{"COMMAND"}, ""},
		{[]string{"NOTHING", "OF", "THE", "SORT"}, ""},
		{[]string{"SET", "other", "x", "NOTHING"}, ""},
		{[]string{"GET"}, ""},
	} {
		t.Run(strings.Trim(strings.ReplaceAll(fmt.Sprint(c.args), "/", ""), "[]"), func(t *testing.T) {
			locks := maps.Clone(kinds.All)
			locks["extra-command"] = commandKind(c.args)
			k := campaign.KnownLocks(kinds.All)
			k.Locks = append(k.Locks, "extra-command")
			all, err := scenario.Parse("extra-command.yaml", []byte(commandScenario), k)
			if err != nil {
				t.Fatal(err)
			}
			j := campaign.Job{Scenario: all[0], Seed: 1, Store: t.TempDir(), Keep: campaign.KeepAll}
			o := campaign.Execute(t.Context(), sim.New(locks), j)
			if o.Error != "" {
				t.Fatal(o.Error)
			}
			want, code := "", outcome.ExitOK
			if c.unsupported != "" {
				want, code = "the simulated n1 does not support "+c.unsupported+"; run it with --backend process", outcome.ExitUndecided
			}
			if o.Verdict.Assumption != want || o.Code != code {
				t.Errorf("assumption %q, exit code %d; want %q, %d", o.Verdict.Assumption, o.Code, want, code)
			}
			page, err := os.ReadFile(filepath.Join(o.Dir, "report.html"))
			if err != nil {
				t.Fatal(err)
			}
			if c.unsupported != "" && !bytes.Contains(page, []byte(c.unsupported+" on n1, asked for 4 times")) {
				t.Error("the report doesn't list the command")
			}
			checkRecordedOnce(t, filepath.Join(o.Dir, campaign.PackedFile), c.unsupported)
		})
	}
}

// checkRecordedOnce checks that the history contains an unsupported command once, no matter how
// often it was sent.
func checkRecordedOnce(t *testing.T, file, what string) {
	t.Helper()
	h, err := history.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var unsupported []string
	for _, e := range h.Events {
		if e.Op == history.OpUnsupported {
			unsupported = append(unsupported, e.Value)
		}
	}
	if got := strings.Join(unsupported, ", "); got != what {
		t.Errorf("the history has %q, want %q", got, what)
	}
	if v := checker.Check(h); (v.Assumption == "") != (what == "") {
		t.Errorf("assumption of the stored history: %q", v.Assumption)
	}
}
