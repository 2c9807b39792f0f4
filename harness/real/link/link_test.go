//go:build linux

package link

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// bench is one real node behind one link, and what the link recorded.
type bench struct {
	t      *testing.T
	node   *proc.Redis
	mesh   *Mesh
	link   *Link
	origin time.Duration

	mu     sync.Mutex
	events []history.Event
	news   chan struct{}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	g, err := proc.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, g.Close()) })
	b := &bench{t: t, origin: proc.TrueClock(), news: make(chan struct{}, 1000)}
	if b.node, err = g.StartRedis(t.Context(), "n1", bin, "none"); err != nil {
		t.Fatal(err)
	}
	b.mesh = NewMesh(func() time.Duration { return proc.TrueClock() - b.origin }, func(e history.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
		b.news <- struct{}{}
	})
	if b.link, err = b.mesh.Open("c1", "n1", b.node.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, b.mesh.Close()) })
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// wait returns all events once there are n.
func (b *bench) wait(n int) []history.Event {
	b.t.Helper()
	limit := time.After(5 * time.Second)
	for {
		b.mu.Lock()
		events := append([]history.Event(nil), b.events...)
		b.mu.Unlock()
		if len(events) >= n {
			return events
		}
		select {
		case <-b.news:
		case <-limit:
			b.t.Fatalf("%d events, want %d: %+v", len(events), n, events)
		}
	}
}

// direct asks the node past the link.
func (b *bench) direct(args ...string) string {
	b.t.Helper()
	v, err := proc.Ask(context.Background(), b.node.Addr(), args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return v.Str
}

// caller is one connection of the client.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (b *bench) dial() *caller {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.link.Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return &caller{b.t, conn, bufio.NewReader(conn)}
}

func (c *caller) send(command string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "%s\r\n", command); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next line, or "" if there is none for a while.
func (c *caller) receive(within time.Duration) string {
	c.conn.SetReadDeadline(time.Now().Add(within))
	line, _ := c.in.ReadString('\n')
	return strings.TrimSpace(line)
}

func (c *caller) want(line string) {
	c.t.Helper()
	if got := c.receive(5 * time.Second); got != line {
		c.t.Fatalf("got %q, want %q", got, line)
	}
}

const (
	soon    = 5 * time.Second
	silence = 20 * time.Millisecond // long enough to see that nothing comes
)

func TestRecordsCommandsWithTheirStamps(t *testing.T) {
	b := newBench(t)
	c1, c2 := b.dial(), b.dial()
	c1.send("SET lock tokenA NX PX 10000")
	c1.want("+OK")
	c2.send("SET lock tokenB NX PX 10000")
	c2.want("$-1")
	c1.send("GET lock") // of no interest
	c1.want("$6")
	c1.want("tokenA")
	c1.send("DEL lock")
	c1.want(":1")
	events := b.wait(3)
	want := []struct {
		op, token string
		typ       history.Type
	}{{"set", "tokenA", history.OK}, {"set", "tokenB", history.Fail}, {"release", "", history.OK}}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d", len(events), len(want))
	}
	for i, e := range events {
		if e.Op != want[i].op || e.Token != want[i].token || e.Type != want[i].typ || e.Process != "c1-n1" || e.Node != "n1" || e.Key != "lock" {
			t.Errorf("event %d is %+v, want %v", i, e, want[i])
		}
		if !(0 < e.Sent && e.Sent <= e.Applied && e.Applied <= e.Answered && e.Answered == e.T) {
			t.Errorf("event %d: sent %d, applied %d, answered %d, t %d are not in order", i, e.Sent, e.Applied, e.Answered, e.T)
		}
	}
	if events[0].TTL != int64(10*time.Second) {
		t.Errorf("TTL is %d", events[0].TTL)
	}
}

func TestMatchesRepliesOfConcurrentConnections(t *testing.T) {
	b := newBench(t)
	const conns, each = 5, 20
	var all sync.WaitGroup
	for i := range conns {
		c := b.dial()
		all.Go(func() {
			for j := range each { // a pipeline: two commands in one write
				c.send(fmt.Sprintf("SET k%d-%d v%d-%d\r\nGET nothing", i, j, i, j))
				c.want("+OK")
				c.want("$-1")
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, e := range b.wait(conns * each) {
		if e.Type != history.OK || strings.TrimPrefix(e.Key, "k") != strings.TrimPrefix(e.Token, "v") {
			text, _ := json.Marshal(e)
			t.Errorf("wrong reply: %s", text)
		}
		seen[e.Key] = true
	}
	if len(seen) != conns*each {
		t.Errorf("%d keys recorded, want %d", len(seen), conns*each)
	}
}

func TestCutKeepsBothWaysAndMendDelivers(t *testing.T) {
	b := newBench(t)
	old := b.dial()
	old.send("PING")
	old.want("+PONG")
	b.link.Cut()
	late := b.dial() // connects succeed
	old.send("SET a 1")
	late.send("SET b 2")
	gone := b.dial()
	gone.send("SET c 3")
	gone.conn.Close()
	if got := old.receive(silence) + late.receive(silence) + b.direct("GET", "a") + b.direct("GET", "b") + b.direct("GET", "c"); got != "" {
		t.Fatalf("%q came through a cut link", got)
	}
	b.link.Mend()
	old.want("+OK")
	late.want("+OK")
	unanswered := 0
	for _, e := range b.wait(3) {
		if e.Applied == 0 {
			t.Errorf("not applied: %+v", e)
		}
		if e.Answered == 0 {
			unanswered++
		}
	}
	if got := b.direct("GET", "a") + b.direct("GET", "b") + b.direct("GET", "c"); got != "123" || unanswered != 1 {
		t.Errorf("values %q, %d replies that nobody saw", got, unanswered)
	}
}

// tap holds the message and returns how to let it pass once it was hit.
func (b *bench) tap(message, of string, nth int) (hit func() (pass func())) {
	b.t.Helper()
	hits := make(chan func(), 1)
	err := b.link.Tap(nemesis.OnMessage{Link: "c1-n1", Message: message, Of: of, Nth: nth}, func(pass func()) { hits <- pass })
	if err != nil {
		b.t.Fatal(err)
	}
	return func() func() {
		b.t.Helper()
		select {
		case pass := <-hits:
			return pass
		case <-time.After(soon):
			b.t.Fatal("the message was not seen")
			return nil
		}
	}
}

func TestTapHoldsTheSecondRequestWhileOthersPass(t *testing.T) {
	b := newBench(t)
	hit := b.tap("set", nemesis.Request, 2)
	held, other := b.dial(), b.dial()
	held.send("SET first 1\r\nSET second 1\r\nPING") // one write: the cut is between messages
	held.want("+OK")
	pass := hit()
	other.send("SET second 2 NX")
	other.want("+OK")
	if got := held.receive(silence); got != "" {
		t.Fatalf("%q passed a held request", got)
	}
	pass()
	held.want("+OK")
	held.want("+PONG")
	if got := b.direct("GET", "second"); got != "1" {
		t.Errorf("second is %q: the held SET did not come last", got)
	}
}

func TestTapHoldsAReplyAfterItWasApplied(t *testing.T) {
	b := newBench(t)
	hit := b.tap("set", nemesis.Reply, 1)
	held, other := b.dial(), b.dial()
	held.send("SET lock A NX PX 10000\r\nPING")
	pass := hit()
	if got := b.direct("GET", "lock"); got != "A" {
		t.Fatalf("lock is %q while the reply is held", got)
	}
	other.send("SET lock B NX PX 10000")
	other.want("$-1")
	if got := held.receive(silence); got != "" {
		t.Fatalf("%q passed a held reply", got)
	}
	released := int64(proc.TrueClock() - b.origin)
	pass()
	held.want("+OK")
	held.want("+PONG")
	e := b.wait(2)[1]
	if e.Token != "A" || e.Applied >= released || e.Answered < released {
		t.Errorf("applied %d, let pass %d, answered %d", e.Applied, released, e.Answered)
	}
}

func TestHeldRequestIsDeliveredAfterItsClientClosed(t *testing.T) {
	b := newBench(t)
	hit := b.tap("release", nemesis.Request, 1)
	c := b.dial()
	c.send("SET lock A NX PX 10000")
	c.want("+OK")
	c.send("DEL lock")
	pass := hit()
	c.conn.Close()
	c2 := b.dial()
	c2.send("SET other 1") // another connection while the held one is closed
	c2.want("+OK")
	if got := b.direct("GET", "lock"); got != "A" {
		t.Fatalf("lock is %q while its release is held", got)
	}
	pass()
	e := b.wait(3)[2]
	if e.Op != history.OpRelease || e.Type != history.OK || e.Applied == 0 || e.Answered != 0 {
		t.Errorf("release is %+v, want it applied and never answered", e)
	}
	if got := b.direct("GET", "lock"); got != "" {
		t.Errorf("lock is %q after its release", got)
	}
}

func TestDeadNodeLeavesRequestsWithoutAnswer(t *testing.T) {
	b := newBench(t)
	hit := b.tap("set", nemesis.Request, 1)
	c := b.dial()
	c.send("SET lock A")
	hit()
	if _, err := b.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := c.receive(soon); got != "" {
		t.Errorf("%q from a dead node", got)
	}
	if e := b.wait(1)[0]; e.Type != history.Info || e.Applied != 0 || e.Answered != 0 {
		t.Errorf("%+v, want no answer", e)
	}
}

func TestCloseRecordsWhatIsHeld(t *testing.T) {
	b := newBench(t)
	hit := b.tap("set", nemesis.Reply, 1)
	c := b.dial()
	c.send("SET lock A")
	hit()
	b.link.Cut()
	check(t, b.mesh.Close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) != 1 || b.events[0].Applied == 0 || b.events[0].Answered != 0 {
		t.Errorf("%+v, want one command that was applied and never answered", b.events)
	}
}

// Large values that clients give up in the middle are what makes toxiproxy's own
// changes hang.
func TestAbandonedTrafficLeavesNothing(t *testing.T) {
	b := newBench(t)
	value := strings.Repeat("x", 256<<10)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				conn, err := net.Dial("tcp", b.link.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
				fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", len(value), value)
				conn.Read(make([]byte, 10))
				conn.Close()
			}
		})
	}
	stop := make(chan struct{})
	toggling := make(chan struct{})
	go func() {
		defer close(toggling)
		for {
			b.link.Cut()
			b.link.Mend()
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	all.Wait()
	close(stop)
	<-toggling
	check(t, b.mesh.Close())
	for end := time.Now().Add(soon); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, were %d", runtime.NumGoroutine(), before)
		}
	}
}

func TestTapRefusesWhatCannotHappen(t *testing.T) {
	l := &Link{name: "c1-n1"}
	for _, m := range []nemesis.OnMessage{{Message: "steal", Of: "reply", Nth: 1}, {Message: "set", Of: "both", Nth: 1}, {Message: "set", Of: "reply"}} {
		if err := l.Tap(m, nil); err == nil || !strings.Contains(err.Error(), "c1-n1") {
			t.Errorf("tap %+v: %v", m, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	addr, release, err := Refuse()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if conn, err := net.Dial("tcp", addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("dial: %v, %v", conn, err)
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		l.Close()
		t.Error("somebody else could listen there")
	}
}

func TestWhatIsNoRESPPasses(t *testing.T) {
	var s splitter
	for _, b := range []string{"*1\r\n$4\r\nPI", "NG\r\nPING\r\n*x\r\n", "garbage"} {
		if got := s.after([]byte(b)); join(got) != b {
			t.Errorf("%q became %q", b, got)
		}
	}
	var whole splitter
	if got := whole.after([]byte("PING\r\n$1\r\na\r\n+")); len(got) != 3 || string(got[1]) != "$1\r\na\r\n" {
		t.Errorf("cut into %q", got)
	}
}

func join(parts [][]byte) string {
	var b strings.Builder
	for _, p := range parts {
		b.Write(p)
	}
	return b.String()
}
