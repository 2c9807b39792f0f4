package history

import (
	"bytes"
	"fmt"
	"io"
)

// generatedHistory is a reader that generates a history of any length on the fly: a run of one lock
// on five nodes, like the baseline scenario. One command per cycle is recorded late, as on real
// nodes.
type generatedHistory struct {
	cycles    int
	failAfter int64 // number of bytes after which Read fails; 0: never

	cycle    int
	n        int64 // last event number
	numLines int   // number of lines started
	numBytes int64
	unread   []byte
	buf      []byte
}

var errReadFailed = fmt.Errorf("disk removed")

func (g *generatedHistory) Read(p []byte) (int, error) {
	if len(g.unread) == 0 {
		if g.cycle > g.cycles {
			return 0, io.EOF
		}
		g.buf = g.buf[:0]
		g.generate()
		g.unread = g.buf
		g.cycle++
	}
	n := copy(p, g.unread)
	if g.failAfter > 0 && g.numBytes+int64(n) > g.failAfter {
		n = int(g.failAfter - g.numBytes)
		g.numLines -= bytes.Count(g.unread[n:], []byte{'\n'}) - 1
		g.numBytes = g.failAfter
		return n, errReadFailed
	}
	g.unread = g.unread[n:]
	g.numBytes += int64(n)
	return n, nil
}

func (g *generatedHistory) put(e Event) {
	g.n++
	g.numLines++
	e.N = g.n
	g.buf, _ = appendLine(g.buf, &e)
}

// generate generates the lines of the next cycle. The first cycle includes the start of the run.
// The last one is followed by a cycle with just the end of the run.
func (g *generatedHistory) generate() {
	at, c := int64(g.cycle)*1_200_000_000, g.cycle%5+1
	if g.cycle == g.cycles {
		g.put(Event{T: at, Process: Harness, Type: End, Op: OpRun, Cause: "completed"})
		return
	}
	if g.cycle == 0 {
		g.put(Event{Process: Harness, Type: Begin, Op: OpRun, Params: &Params{Schema: Schema, Scenario: "baseline", Backend: "sim",
			Clients: []string{"c1", "c2", "c3", "c4", "c5"}, Nodes: []string{"n1", "n2", "n3", "n4", "n5"}, Resource: "r1", Quorum: 3, TTL: 10e9}})
	}
	client, session := fmt.Sprint("c", c), fmt.Sprint("c", c, "/", g.cycle/5+1)
	e := Event{Process: client, Key: "lock-1", Session: session}
	putEvent := func(after int64, t Type, op string, rest Event) {
		rest.T, rest.Process, rest.Type, rest.Op, rest.Key, rest.Session = at+after, e.Process, t, op, e.Key, e.Session
		g.put(rest)
	}
	token := fmt.Sprintf("%040x", int64(g.cycle)*2654435761)
	putCommands := func(after int64, op string, ttl int64) {
		for i := range int64(5) {
			answered := at + after + 400_000 + i*90_000
			if i == 3 {
				answered -= 200_000
			}
			node := fmt.Sprint("n", i+1)
			g.put(Event{T: answered, Process: client + "-" + node, Type: OK, Op: op, Key: e.Key, Token: token, Node: node, TTL: ttl,
				SentAt: at + after, AppliedAt: answered - 200_000, AnsweredAt: answered})
		}
	}
	const epoch = 946684800_000000000
	putEvent(0, Invoke, OpAcquire, Event{})
	putCommands(0, OpSet, 10e9)
	putEvent(3_000_000, OK, OpAcquire, Event{Token: token, ValidUntil: at + 9_898_000_000, Local: epoch + at + 3_000_000})
	putEvent(4_000_000, Invoke, OpRead, Event{})
	putEvent(5_000_000, OK, OpRead, Event{Version: int64(g.cycle), Value: session + ":read"})
	putEvent(900_000_000, OK, OpCheck, Event{Local: epoch + at + 900_000_000})
	putEvent(901_000_000, Invoke, OpWrite, Event{Version: int64(g.cycle), Value: session + ":write1"})
	putEvent(903_000_000, OK, OpWrite, Event{Version: int64(g.cycle), Value: session + ":write1"})
	putEvent(904_000_000, Invoke, OpRelease, Event{Token: token})
	putCommands(904_000_000, OpRelease, 0)
	putEvent(907_000_000, OK, OpRelease, Event{})
}
