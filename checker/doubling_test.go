package checker

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"lockpick/harness/history"
)

// BenchmarkDoubling reads and judges records that grow in one dimension at a time, and reports the
// time per event. If this time doubles from one size to the next, the checker takes quadratic time
// in that dimension. On one core of a busy machine, in nanoseconds per event:
//
//	                      40,000   80,000
//	sections               1,200    1,100
//	clients                2,300    2,100
//	keys                   3,900    3,800
//	pauses                 1,500    1,500
//	writes of a session    1,100    1,200
//	stalls                 1,000    1,100
//	kills of clients       7,300    5,600
//
// Records that grow in two dimensions at a time are not covered: n clients, each hit by a different
// fault, and m faults of nodes still take time proportional to n·m.
func BenchmarkDoubling(b *testing.B) {
	for _, way := range growths {
		b.Run(way.name, func(b *testing.B) {
			for _, n := range []int{40_000, 80_000} {
				b.Run(strconv.Itoa(n), func(b *testing.B) { way.double(b, n) })
			}
		})
	}
}

// growth is one dimension in which a record grows.
type growth struct {
	name  string
	build func(t *builder, n int)
}

func (g growth) double(b *testing.B, n int) {
	t := newBuilder()
	g.build(t, n)
	file := t.file(b)
	for b.Loop() {
		h, err := history.Read(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		if v := Check(h); v.Assumption != "" || v.Disagreement != "" {
			b.Fatal(v.Assumption, v.Disagreement)
		}
	}
	events := float64(b.N) * float64(len(t.events))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
	b.ReportMetric(0, "ns/op")
}

// builder builds a record with one event per microsecond.
type builder struct {
	params          history.Params
	events          []history.Event
	at              int64
	sessionCounts   map[string]int
	currentSessions map[string]string // by client: its current session
}

const microsecond = int64(time.Microsecond)

func newBuilder() *builder {
	return &builder{sessionCounts: map[string]int{}, currentSessions: map[string]string{}, params: history.Params{
		Schema: history.Schema, Clients: []string{"c1", "c2"}, Nodes: []string{"n1", "n2", "n3"}, Quorum: 2, Resource: "resource", Fence: "none",
		TTL: 100 * time.Microsecond, NodeTimeout: 5 * time.Microsecond, RetryMax: 20 * time.Microsecond, Slack: 50 * time.Microsecond, Rounds: 2,
		MaxExtends: 1_000_000, MaxHold: time.Hour, Epoch: 1_600_000_000_000_000_000,
	}}
}

// file returns the record in its file format.
func (t *builder) file(b *testing.B) []byte {
	b.Helper()
	var file bytes.Buffer
	rec := history.NewRecorder(&file)
	all := []history.Event{{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &t.params}}
	for _, c := range t.params.Clients {
		all = append(all, history.Event{Process: c, Type: history.Begin, Op: history.OpClient})
	}
	all = append(all, t.events...)
	all = append(all, history.Event{T: t.at + 1, Process: history.Harness, Type: history.End, Op: history.OpRun})
	for _, e := range all {
		rec.Record(e)
	}
	if err := rec.Err(); err != nil {
		b.Fatal(err)
	}
	return file.Bytes()
}

// emit adds an event a microsecond after the last one.
func (t *builder) emit(e history.Event) {
	t.at += microsecond
	e.T = t.at
	t.events = append(t.events, e)
}

// clientEvent adds a client's event in its current session.
func (t *builder) clientEvent(client string, typ history.Type, op string, event history.Event) {
	event.Process, event.Type, event.Op, event.Session = client, typ, op, t.currentSessions[client]
	if event.Key == "" {
		event.Key = "k"
	}
	t.emit(event)
}

func (t *builder) callAcquire(client, key string) {
	t.sessionCounts[client]++
	t.currentSessions[client] = fmt.Sprintf("%s/%d", client, t.sessionCounts[client])
	t.clientEvent(client, history.Invoke, history.OpAcquire, history.Event{Key: key})
}

func (t *builder) grantAcquire(client, key string) {
	t.clientEvent(client, history.OK, history.OpAcquire, history.Event{Key: key, Token: t.currentSessions[client], ValidUntil: t.at + 80*microsecond, Local: t.params.Epoch + t.at + microsecond, WallClock: true})
}

func (t *builder) callAndReturn(client, op string, event history.Event) {
	t.clientEvent(client, history.Invoke, op, event)
	t.clientEvent(client, history.OK, op, event)
}

// section adds an acquire and a release.
func (t *builder) section(client, key string) {
	t.callAcquire(client, key)
	t.grantAcquire(client, key)
	t.callAndReturn(client, history.OpRelease, history.Event{Key: key})
}

// fault adds a fault that is active while body runs.
func (t *builder) fault(kind, target string, step int, body func()) {
	t.nemesisEvent(history.Invoke, kind, target, step)
	t.nemesisEvent(history.Begin, kind, target, step)
	body()
	t.nemesisEvent(history.End, kind, target, step)
}

func (t *builder) nemesisEvent(typ history.Type, kind, target string, step int) {
	t.emit(history.Event{Process: history.Nemesis, Type: typ, Op: kind, Node: target, Step: step})
}

// linkEvent adds a command that a node executed, as its link recorded it.
func (t *builder) linkEvent(client, node, op string, typ history.Type, token, key string) {
	t.emit(history.Event{Process: client + "-" + node, Type: typ, Op: op, Node: node, Key: key, Token: token,
		SentAt: t.at, AppliedAt: t.at + microsecond/2, AnsweredAt: t.at + microsecond, TTL: int64(t.params.TTL)})
}

// lifeEvent adds a node's report about a key.
func (t *builder) lifeEvent(node, key string, what history.Change, token string) {
	t.emit(history.Event{Process: node, Type: history.Info, Op: history.OpLife, Key: key, Local: t.params.Epoch + t.at + microsecond,
		Life: &history.Life{Kind: what, Seq: int64(len(t.events) + 1), Value: token, Sender: "c1-" + node, Expiry: t.params.Epoch + t.at + int64(t.params.TTL)}})
}
