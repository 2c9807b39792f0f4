package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
)

// A node that resumes handles all requests received during the pause, including abandoned ones.
func TestPausedNodeHandlesBacklog(t *testing.T) {
	_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			abandoned, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			mustSucceed(t, "PING: no answer")(c.Pause("n1"))
			mustFail(t, "paused already")(c.Pause("n1"))
			fmt.Fprintf(abandoned, "SET k given-up NX PX 10000\r\n")
			abandoned.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if n, err := abandoned.Read(make([]byte, 9)); err == nil {
				t.Errorf("a paused node sent %d bytes", n)
			}
			abandoned.Close()
			conn, err := e.Dial(ctx, "tcp", c.addr("n1")) // the node's kernel accepts connections
			if err != nil {
				return err
			}
			for i := range 3 {
				fmt.Fprintf(conn, "RPUSH l %d\r\n", i)
			}
			<-e.After(time.Second)
			if c.do(t, "n1", "DBSIZE") != int64(0) {
				t.Error("the node executed a command while paused")
			}
			mustSucceed(t, "5 things waited; PING: PONG")(c.Resume("n1"))
			mustFail(t, "ended")(func() (string, error) { b, err := c.Resume("n1"); return b, errors.Join(err, errors.New(b)) }())
			if reply, err := ask(conn, "GET k"); !strings.HasSuffix(reply, "given-up\r\n") && !strings.HasPrefix(reply, ":1") {
				t.Errorf("GET: %q, %v", reply, err)
			}
			<-e.After(10 * time.Millisecond)
			if list := c.do(t, "n1", "LRANGE", "l", "0", "-1"); fmt.Sprint(list) != "[0 1 2]" {
				t.Errorf("the list is %v", list)
			}
			if remaining := c.do(t, "n1", "PTTL", "k").(int64); remaining < 9900 {
				t.Errorf("the abandoned SET's key expires in %d ms, want 10 s from its execution", remaining)
			}
			// A node killed while paused discards its backlog.
			c.Pause("n1")
			fmt.Fprintf(conn, "SET x 1\r\n")
			<-e.After(10 * time.Millisecond)
			c.Kill("n1")
			mustSucceed(t, "ended meanwhile")(c.Resume("n1"))
			if _, err := conn.Read(make([]byte, 99)); err == nil {
				_, err = conn.Read(make([]byte, 99))
				if !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("read: %v", err)
				}
			}
			mustSucceed(t, "(keys: 0)")(c.Restart("n1"))
			return nil
		})
	})
	if len(events) != 2 || events[0].Op != history.OpSet || events[0].AppliedAt < int64(time.Second) || events[0].AnsweredAt != 0 || events[1].AppliedAt != 0 {
		t.Errorf("recorded %+v", events)
	}
}
