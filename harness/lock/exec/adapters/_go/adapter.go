// A starter for an adapter: one key on one node, with SET NX PX and compare-and-delete. Replace the code
// between the lines with your library, and adapt the answers below. See lockpick help adapter.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"adapter/lockpick"
)

// ---- your library ----

type oneKey struct {
	addr                 string
	ttl, timeout, margin time.Duration
}

const ifOwn = `if redis.call("get",KEYS[1])==ARGV[1] then return redis.call(%s) end return 0`

var errLate = errors.New("the answer arrived too late")

// ask sends a command on a new connection and returns the answer, a single line.
func (l *oneKey) ask(words ...string) (string, error) {
	c, err := net.DialTimeout("tcp", l.addr, l.timeout)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(l.timeout))
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (l *oneKey) millis() string { return strconv.FormatInt(l.ttl.Milliseconds(), 10) }

func (l *oneKey) lock(key string) (token string, began time.Time, err error) {
	began, token = time.Now(), rand.Text()
	said, err := l.ask("SET", key, token, "NX", "PX", l.millis())
	switch {
	case err == nil && said != "+OK":
		return "", began, lockpick.No{No: "taken"}
	case err == nil && time.Since(began) < l.ttl-l.margin:
		return token, began, nil
	case err == nil:
		err = errLate
	}
	l.unlock(key, token) // the outcome is unknown, so the key may have been set
	return "", began, lockpick.No{No: "unknown", Why: err.Error()}
}

func (l *oneKey) own(call, key, token string, args ...string) error {
	said, err := l.ask(append([]string{"EVAL", fmt.Sprintf(ifOwn, call), "1", key, token}, args...)...)
	if err == nil && said != ":1" {
		return lockpick.No{No: "not-held"}
	}
	return err
}

func (l *oneKey) extend(key, token string) error {
	return l.own(`"pexpire",KEYS[1],ARGV[2]`, key, token, l.millis())
}

func (l *oneKey) unlock(key, token string) error { return l.own(`"del",KEYS[1]`, key, token) }

// ----------------------

func main() {
	var l oneKey
	var held sync.Map // keys by handle
	own := func(handle string) string {
		key, _ := held.Load(handle)
		return fmt.Sprint(key)
	}
	// A lease starts before the request is sent.
	lease := func(began time.Time) lockpick.M { return lockpick.Lease(began, l.ttl-l.margin) }
	lockpick.Serve(lockpick.M{"name": "adapter", "version": "1", "can": []string{"extend"}, "nodes": "one"}, map[string]lockpick.Op{
		"open": func(_ context.Context, r lockpick.Request) (lockpick.M, error) {
			s, millis := r.Settings, float64(time.Millisecond)
			l = oneKey{r.Nodes[0].Addr, time.Duration(s.TTL * millis), time.Duration(s.Timeout * millis), time.Duration((s.TTL*s.Drift + 2) * millis)}
			return lockpick.M{"quorum": 1}, nil
		},
		"acquire": func(_ context.Context, r lockpick.Request) (lockpick.M, error) {
			token, began, err := l.lock(r.Key)
			if err != nil {
				return nil, err
			}
			held.Store(token, r.Key)
			a := lease(began)
			a["handle"], a["token"] = token, token
			return a, nil
		},
		"extend": func(_ context.Context, r lockpick.Request) (lockpick.M, error) {
			began := time.Now()
			return lease(began), l.extend(own(r.Handle), r.Handle)
		},
		"release": func(_ context.Context, r lockpick.Request) (lockpick.M, error) {
			return nil, l.unlock(own(r.Handle), r.Handle)
		},
	})
}
