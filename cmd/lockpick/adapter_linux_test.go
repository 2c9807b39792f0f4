package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/real/proc"
)

// adapterName is the command name that makes the test binary act as an adapter.
const adapterName = "lockpick-adapter"

func init() { programs[adapterName] = runAdapter }

// runAdapter runs an adapter for a plain lock on one node. Its argument selects a mistake that it
// makes.
func runAdapter() {
	mistake := ""
	if len(os.Args) > 1 {
		mistake = os.Args[1]
	}
	var outMu sync.Mutex
	printLine := func(format string, args ...any) {
		outMu.Lock()
		defer outMu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	fmt.Fprintln(os.Stderr, "adapter with mistake", strconv.Quote(mistake))
	switch mistake {
	case "dies":
		os.Exit(7)
	case "garbage":
		printLine("connecting…")
	case "long-lines":
		printLine("%s", strings.Repeat("x", 10<<20))
	case "strikes":
		hitFromAdapter(os.Args[2], os.Args[3], os.Args[4])
	case "leaves-a-child":
		child := exec.Command("sleep", "60")
		child.Args[0] = os.Args[0] + "'s child"
		child.Start()
	}
	feature := map[bool]string{false: "extend", true: "renewed"}[mistake == "renews"] // not a mistake
	printLine(`{"hello":1,"name":"plain","version":"3","can":["%s"],"nodes":"one"}`, feature)
	a := plainAdapter{mistake: mistake}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m adapterRequest
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			panic(err)
		}
		if name, ok := strings.CutSuffix(mistake, "-later"); ok && m.Op == "acquire" && a.makeMistake(name, &m) {
			continue
		}
		if mistake == "is-silent" && m.Op != "open" && m.Op != "clock" {
			time.Sleep(time.Hour) // not select {}, which Go would report as a deadlock
		}
		switch {
		case m.Op == "ping":
			if mistake != "ignores-ping" {
				printLine(`{"id":%d,"pong":true}`, m.ID)
			}
		case m.Op == "acquire":
			go func() { // pings are answered in the meantime
				answer := a.answer(m)
				printLine(`{"id":%d,%s}`, m.ID, answer)
				if mistake == "answers-twice" {
					printLine(`{"id":%d,%s}`, m.ID, answer)
				}
			}()
		default:
			printLine(`{"id":%d,%s}`, m.ID, a.answer(m))
		}
		if m.Op == "close" {
			return
		}
	}
}

// makeMistake makes the named mistake in the second acquire. It reports whether the adapter must
// leave request m unanswered.
func (a *plainAdapter) makeMistake(name string, m *adapterRequest) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.numAcquires == 0 {
		return false
	}
	switch name {
	case "dies":
		fmt.Fprintln(os.Stderr, "panic: no more memory")
		os.Exit(7)
	case "garbage":
		fmt.Println("redis: connected to", a.addr)
	case "long-lines":
		fmt.Println(strings.Repeat("x", 10<<20))
	case "another-id":
		m.ID += 100
	case "is-silent":
		time.Sleep(time.Hour)
	}
	return name == "hangs"
}

// renewInBackground extends a lock until its release, without being asked, and reports each
// extension.
func (a *plainAdapter) renewInBackground(key, token string) {
	a.releaseCh = make(chan struct{})
	go func(releaseCh chan struct{}) {
		for {
			select {
			case <-releaseCh:
				return
			case <-time.After(time.Duration(a.ttl) * time.Millisecond / 3):
			}
			start := monotonic()
			v, err := proc.Ask(context.Background(), a.addr, "EVAL", extendIfOwner, "1", key, token, strconv.FormatInt(a.ttl, 10))
			if err == nil && v.Int == 1 {
				fmt.Printf(`{"renewed":"%s","until":%d,"clock":"monotonic"}`+"\n", token, a.deadline(start))
			}
		}
	}(a.releaseCh)
}

type adapterRequest struct {
	ID          int64
	Op          string
	Nodes       []struct{ Addr string }
	Settings    struct{ TTL float64 }
	Key, Handle string
}

// plainAdapter is the adapter's lock: SET NX PX, and compare and delete.
type plainAdapter struct {
	mu                 sync.Mutex
	mistake, addr, key string
	ttl                int64
	numAcquires        int
	releaseCh          chan struct{} // closed when the hold that renewInBackground extends is released
}

const (
	deleteIfOwner = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) end return 0`
	extendIfOwner = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) end return 0`
)

func (a *plainAdapter) answer(m adapterRequest) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	start := monotonic()
	okReply := func() string { return fmt.Sprintf(`"ok":true,"until":%d,"clock":"monotonic"`, a.deadline(start)) }
	request := func(args ...string) (yes bool) {
		v, err := proc.Ask(context.Background(), a.addr, args...)
		return err == nil && (v.Int == 1 || v.Str == "OK")
	}
	ttl := strconv.FormatInt(a.ttl, 10)
	if a.mistake == "refuses-"+m.Op {
		return `"no":"error","why":"broken on purpose"`
	}
	switch m.Op {
	case "open":
		a.addr, a.ttl = m.Nodes[0].Addr, int64(m.Settings.TTL)
		return `"ok":true,"quorum":1`
	case "clock":
		return fmt.Sprintf(`"ok":true,"monotonic":%d,"wall":"%d"`, start, time.Now().UnixNano())
	case "acquire":
		a.numAcquires++
		token := fmt.Sprintf("%d-%d", os.Getpid(), a.numAcquires)
		command := []string{"SET", m.Key, token, "NX", "PX", ttl}
		switch a.mistake {
		case "overwrites":
			command = []string{"SET", m.Key, token, "PX", ttl}
		case "sets-no-ttl":
			command = command[:4]
		}
		for !request(command...) {
			if a.mistake != "waits" { // not a mistake
				return `"no":"taken"`
			}
			time.Sleep(10 * time.Millisecond)
		}
		a.key = m.Key
		if a.mistake == "renews" {
			a.renewInBackground(m.Key, token)
		}
		return fmt.Sprintf(`"handle":"%s","token":"%s",%s`, token, token, okReply())
	case "extend":
		if !request("EVAL", extendIfOwner, "1", a.key, m.Handle, ttl) {
			return `"no":"not-held"`
		}
		return okReply()
	case "release":
		if a.releaseCh != nil {
			close(a.releaseCh)
		}
		if a.mistake != "releases-nothing" && !request("EVAL", deleteIfOwner, "1", a.key, m.Handle) {
			return `"no":"not-held"`
		}
	}
	return `"ok":true`
}

func (a *plainAdapter) deadline(start int64) int64 {
	deadline := start + a.ttl*int64(time.Millisecond)
	if a.mistake == "lies" {
		deadline += int64(time.Minute)
	}
	return deadline
}

// processStart and bootTime are the same instant: on Go's clock, and on CLOCK_MONOTONIC.
var processStart, bootTime = time.Now(), func() int64 {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}()

// monotonic returns CLOCK_MONOTONIC as this process sees it, including clock faults.
func monotonic() int64 { return bootTime + int64(time.Since(processStart)) }
