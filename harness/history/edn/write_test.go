package edn

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	goedn "olympos.io/encoding/edn"

	"lockpick/internal/histories"
)

const pausedHistory = `params clients=c1,c2 nodes=n1 ttl=10s
0 c1 begin client
0 c2 begin client
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 until=12
3 nemesis begin pause node=c1 step=1 cause="quoted" \path
11 c2 invoke acquire session=c2/1
13 c2 ok acquire session=c2/1 until=23
18 nemesis end pause node=c1 step=1
19 c1 invoke release session=c1/1
20 c1 fail release session=c1/1
21 c2 invoke release session=c2/1
22 c2 info release session=c2/1
23 c2 invoke acquire session=c2/2
24 c2 fail acquire session=c2/2 cause=taken
25 c1 invoke acquire session=c1/2
26 harness end run
`

// wantEDN is pausedHistory as EDN. The expired lease is released at its deadline. After an :info, a
// client continues under another number. An operation that never returned is :info.
const wantEDN = `{:index 0, :type :invoke, :process 0, :f :acquire, :value nil, :time 1000000000, :key "lock-1", :event 3}
{:index 1, :type :ok, :process 0, :f :acquire, :value nil, :time 2000000000, :key "lock-1", :event 4}
{:index 2, :type :info, :process :nemesis, :f :start-pause, :value ["c1"], :time 3000000000, :event 5}
{:index 3, :type :info, :process :nemesis, :f :start-pause, :value ["c1" "\"quoted\" \\path"], :time 3000000000, :event 5}
{:index 4, :type :invoke, :process 1, :f :acquire, :value nil, :time 11000000000, :key "lock-1", :event 6}
{:index 5, :type :invoke, :process 0, :f :release, :value nil, :time 12000000000, :key "lock-1", :event 4}
{:index 6, :type :ok, :process 0, :f :release, :value nil, :time 12000000000, :key "lock-1", :error [:expired], :event 4}
{:index 7, :type :ok, :process 1, :f :acquire, :value nil, :time 13000000000, :key "lock-1", :event 7}
{:index 8, :type :info, :process :nemesis, :f :stop-pause, :value ["c1"], :time 18000000000, :event 8}
{:index 9, :type :info, :process :nemesis, :f :stop-pause, :value ["c1" ""], :time 18000000000, :event 8}
{:index 10, :type :invoke, :process 1, :f :release, :value nil, :time 21000000000, :key "lock-1", :event 11}
{:index 11, :type :info, :process 1, :f :release, :value nil, :time 22000000000, :key "lock-1", :event 12}
{:index 12, :type :invoke, :process 3, :f :acquire, :value nil, :time 23000000000, :key "lock-1", :event 13}
{:index 13, :type :fail, :process 3, :f :acquire, :value nil, :time 24000000000, :key "lock-1", :error "taken", :event 14}
{:index 14, :type :invoke, :process 0, :f :acquire, :value nil, :time 25000000000, :key "lock-1", :event 15}
{:index 15, :type :info, :process 0, :f :acquire, :value nil, :time 25000000000, :key "lock-1", :error "it never returned", :event 15}
`

func TestWrite(t *testing.T) {
	h, err := histories.Parse(pausedHistory)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, h); err != nil {
		t.Fatal(err)
	}
	if b.String() != wantEDN {
		t.Errorf("got:\n%s", b.String())
	}
	if _, _, err := Read(&b, 0); err != nil {
		t.Error(err)
	}
}

// After an acquire with an unknown outcome, a client continues under another number, which is
// larger by the number of clients, and may still release the lock. No release is added for a client
// that still held the lock when the run was stopped.
func TestWriteUnknownAcquire(t *testing.T) {
	h, err := histories.Parse(`params clients=c1,c2 nodes=n1
0 c1 begin client
0 c2 begin client
1 c1 invoke acquire session=c1/1
2 c1 info acquire session=c1/1
3 c1 invoke release session=c1/1
4 c1 ok release session=c1/1
5 c2 invoke acquire session=c2/1
6 c2 ok acquire session=c2/1
7 harness info stop cause=interrupted
8 c2 invoke release session=c2/1
9 c2 ok release session=c2/1
9 harness end run`)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, h); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		f := strings.Fields(strings.ReplaceAll(line, ",", ""))
		got = append(got, f[3]+" "+f[5]+" "+f[7])
	}
	want := ":invoke 0 :acquire; :info 0 :acquire; :invoke 2 :release; :ok 2 :release; :invoke 1 :acquire; :ok 1 :acquire; :invoke 1 :release; :ok 1 :release"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// An EDN library reads a name back as a single string, whatever characters the name contains.
func TestWriteHostileNames(t *testing.T) {
	for _, key := range []string{"a\"b", `back\slash`, "new\nline\r\t", "\x00\x1b\x7f\u0085\u2028", "né 🔒", "#{:a}", "", strings.Repeat("x", 1<<20)} {
		h, err := histories.Parse(pausedHistory)
		if err != nil {
			t.Fatal(err)
		}
		for i := range h.Events {
			if h.Events[i].Session != "" {
				h.Events[i].Key = key
			}
		}
		var b bytes.Buffer
		if err := Write(&b, h); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "\n"); n != strings.Count(wantEDN, "\n") {
			t.Errorf("%.40q: got %d lines", key, n)
		}
		var op map[goedn.Keyword]any
		d := goedn.NewDecoder(&b)
		for n := 0; ; n++ {
			op = nil
			if err := d.Decode(&op); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%.40q: %v", key, err)
			}
			got, named := op["key"].(string)
			if cut := len(key) > maxString; named && got != key && !(cut && strings.HasPrefix(got, key[:maxString])) {
				t.Errorf("%.40q was read back as %.40q", key, got)
			}
			if op["index"] != int64(n) {
				t.Errorf("index %v, want %d", op["index"], n)
			}
		}
	}
}
