package proxy

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"lockpick/nemesis"
)

// toxic is one direction of a link. toxiproxy makes it by its registered type.
type toxic struct {
	link *Link
	of   string // what it sees: requests or replies
}

var _ toxics.StatefulToxic = (*toxic)(nil)

const toxicType = "lockpick"

// toxiproxy has one registry for the whole process.
var registerOnce = sync.OnceFunc(func() { toxics.Register(toxicType, new(toxic)) })

// addToxic puts the toxic on the proxy, which has no connection yet.
func addToxic(l *Link, of string) error {
	direction := stream.Upstream
	if of == nemesis.Reply {
		direction = stream.Downstream
	}
	w, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(
		fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":{}}`, of, toxicType, direction)))
	if err != nil {
		return fmt.Errorf("add toxic: %w", err)
	}
	t := w.Toxic.(*toxic)
	t.link, t.of = l, of
	return nil
}

// NewState makes one pipe of the connection that is being opened.
func (t *toxic) NewState() any { return t.link.newPipe(t.of) }

// Pipe moves data until the source has ended and all is delivered, or until the
// chain of toxics changes; then it is called again with the same state.
func (t *toxic) Pipe(stub *toxics.ToxicStub) {
	p := stub.State.(*pipe)
	for {
		var in <-chan *stream.StreamChunk
		var out chan<- *stream.StreamChunk
		var chunk *stream.StreamChunk
		now := p.conn.link.now()
		next := p.look(now)
		if next.over {
			stub.Close()
			p.finish()
			return
		}
		var due <-chan time.Time
		if next.wait > 0 {
			due = time.After(next.wait)
		}
		if !p.ended {
			in = stub.Input
		}
		if next.data != nil {
			out, chunk = stub.Output, &stream.StreamChunk{Data: next.data, Timestamp: time.Now()}
		}
		select {
		case <-stub.Interrupt:
			return
		case <-next.changed:
		case <-due:
		case <-p.grace:
			p.patient = false
		case c := <-in:
			if c == nil {
				p.end()
			} else {
				p.take(c.Data)
			}
		case out <- chunk:
			p.passed(now)
		}
	}
}
