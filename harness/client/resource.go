package client

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockpick/harness/history"
)

//go:embed read.lua
var readScript string

//go:embed write.lua
var writeScript string

// resourceKey returns the key prefix of the resource that a lock protects.
func resourceKey(lockKey string) string { return "resource:" + lockKey }

// LogKey returns the key of the list where the resource logs all reads and attempted writes, in the
// order in which it processed them.
func LogKey(lockKey string) string { return resourceKey(lockKey) + ":log" }

// resource is a client's connection to the protected resource. It never resends a command.
type resource struct {
	db   *redis.Client
	mode string
}

func openResource(s Spec, e Env) *resource {
	return &resource{mode: s.Fence, db: redis.NewClient(&redis.Options{
		Addr: s.Resource.Addr, Dialer: e.Dial, Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, DialerRetries: 1, MinRetryBackoff: -1, PoolSize: 4, ContextTimeoutEnabled: true,
		// Only the context limits how long a command may take.
		ReadTimeout: -1, WriteTimeout: -1, DialTimeout: s.Lock.TTL,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
}

// silenceRedis keeps go-redis from logging each failed connection to stderr. Connections fail on
// purpose here, and the history records the result.
var silenceRedis = sync.OnceFunc(func() { redis.SetLogger(discardLogger{}) })

type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}

// entry contains the arguments of a command to the resource.
type entry struct {
	key, value, session, token string
	version, fence             int64
}

var errNoAnswer = errors.New("no answer")

// answer is the resource's reply to a command.
type answer struct {
	allowed bool
	version int64 // the resource's version after the command
	fence   int64 // the fencing token that the resource used for the command
}

// send sends a command and waits for the reply, at most for the duration wait.
func (r *resource) send(ctx context.Context, script string, en entry, wait time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	reply, err := r.db.Eval(ctx, script, []string{resourceKey(en.key)},
		en.value, en.session, en.version, en.fence, en.token, r.mode).Int64Slice()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	if len(reply) != 3 {
		return answer{}, fmt.Errorf("resource returned %d values, want 3", len(reply))
	}
	return answer{reply[0] == 1, reply[1], reply[2]}, nil
}

// ParseLogEntry converts an entry of the resource's log for a lock to an event.
func ParseLogEntry(lockKey, text string) (history.Event, error) {
	f := strings.Fields(text)
	if len(f) != 6 {
		return history.Event{}, fmt.Errorf("read resource log: entry %q has %d fields, want 6", text, len(f))
	}
	version, err1 := strconv.ParseInt(f[4], 10, 64)
	fence, err2 := strconv.ParseInt(f[5], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return history.Event{}, fmt.Errorf("read resource log: entry %q: %w", text, err)
	}
	e := history.Event{Op: history.OpLog, Type: history.Fail, Key: lockKey,
		Cause: f[0], Session: f[2], Value: f[3], Version: version, Fence: fence}
	if f[1] == "1" {
		e.Type = history.OK
	}
	return e, nil
}
