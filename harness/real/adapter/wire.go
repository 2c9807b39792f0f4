//go:build linux

package adapter

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/resp"
)

// tap tells what comes to a node, by its MONITOR: from the start, for a script that is called by
// its hash later is known by what was seen of it.
type tap struct {
	conn   net.Conn
	heard  chan []string
	stream *resp.Stream
}

// taps begins to listen to the first node, and returns how to end that.
func (t *trial) taps() (end func()) {
	conn, err := net.DialTimeout("tcp", t.nodes[0].Addr(), time.Second)
	if err != nil {
		return func() {}
	}
	t.tap = &tap{conn: conn, heard: make(chan []string, 10_000), stream: resp.NewStream(new(resp.Scripts))}
	go t.tap.listen()
	return func() { conn.Close() }
}

func (p *tap) listen() {
	defer close(p.heard)
	if _, err := p.conn.Write(resp.Append(nil, "MONITOR")); err != nil {
		return
	}
	for lines := bufio.NewReader(p.conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if words := monitored(line); words != nil {
			p.heard <- words
		}
	}
}

// monitored are the words of a command in a line of MONITOR; none of what a script calls.
func monitored(line string) (words []string) {
	from, rest, ok := strings.Cut(strings.TrimSpace(line), "] ")
	if !ok || strings.HasSuffix(from, " lua") {
		return nil
	}
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil
		}
		words, rest = append(words, word), strings.TrimSpace(rest[len(quoted):])
	}
	return words
}

// until returns what came before a mark that is set now.
func (t *trial) until(mark string) (all []*resp.Command, err error) {
	if _, err := proc.Ask(t.ctx, t.nodes[0].Addr(), "ECHO", mark); err != nil {
		return nil, err
	}
	late := time.After(checkTTL)
	for {
		select {
		case words, ok := <-t.tap.heard:
			if !ok {
				return all, fmt.Errorf("node %s ended its MONITOR", t.nodes[0].Name)
			}
			if len(words) == 2 && words[1] == mark {
				return all, nil
			}
			all = append(all, t.tap.stream.Request(resp.Append(nil, words...), 0)...)
		case <-late:
			return all, fmt.Errorf("node %s told nothing of a command for %v", t.nodes[0].Name, checkTTL)
		}
	}
}

// wire shows by which commands a hold passes, and as what they are taken: by that the record
// knows why a lock was lost, and a trigger meets a message.
func (t *trial) wire() {
	if t.tap == nil {
		t.skip("on the wire", cmp.Or(t.untold(), "node "+t.nodes[0].Name+" can't be listened to"))
		return
	}
	var table []string
	met := map[string]bool{}
	step := func(name string, do func() error) error {
		if _, err := t.until("lockpick-before-" + name); err != nil {
			return err
		}
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		came, err := t.until("lockpick-after-" + name)
		for _, c := range came {
			met[name+" "+c.Op] = true
			table = append(table, fmt.Sprintf("%-8s %-8s %s", name, orDash(c.Op), told(c)))
		}
		return err
	}
	h, err := t.acquire("check-7")
	if err == nil { // so that the scripts are known
		_, err = released(h.Release(t.ctx))
	}
	if err == nil {
		err = step("acquire", func() (err error) { h, err = t.acquire("check-6"); return err })
	}
	if err == nil && t.adapter.Hello.Kind().Can.Extend {
		err = step("extend", func() error { return h.Extend(t.ctx) })
	}
	if err == nil {
		err = step("release", func() error { _, err := released(h.Release(t.ctx)); return err })
	}
	if err == nil && !met["acquire "+history.OpSet] {
		table = append(table, "no command of the acquire is known to set a key: a trigger {message: set} never meets it")
	}
	t.say("on the wire", strings.Join(table, "\n"), err)
}

func orDash(op string) string {
	if op == "" {
		return "-"
	}
	return op
}

// told is a command in a line, with what was read off it.
func told(c *resp.Command) string {
	var read []string
	if c.Op != "" {
		read = append(read, "key "+c.Key)
	}
	if c.TTL > 0 {
		read = append(read, "ttl "+time.Duration(c.TTL).String())
	}
	var words []string
	for _, w := range c.Args {
		if w = strings.Join(strings.Fields(w), " "); len(w) > 24 {
			w = w[:20] + "…"
		}
		words = append(words, strings.Trim(strings.ReplaceAll(strconv.Quote(w), `\"`, `"`), `"`))
	}
	return strings.TrimSpace(strings.Join(read, ", ") + "   " + strings.Join(words, " "))
}
