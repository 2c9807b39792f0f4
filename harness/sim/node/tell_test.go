package node

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// runStory runs a story against a server. It returns the replies to the commands and the delays of
// time-sensitive directives. It returns an error if a step fails.
func runStory(s *Story, to Server) ([]Reply, error) {
	t := &storyRunner{server: to, rate: 1, connections: map[string]*connection{}}
	defer t.close()
	var out []Reply
	for _, st := range s.Steps {
		if !st.HasReply() {
			if directives[st.Words[0]].instantMatters {
				out = append(out, Reply{Step: st, Delay: t.lag()})
			}
			if err := directives[st.Words[0]].run(t, st.Words[1:]); err != nil {
				return out, fmt.Errorf("%s:%d: %s: %w", s.Path, st.Line, strings.Join(st.Words, " "), err)
			}
			continue
		}
		reply, err := t.execute(st.Words)
		if err != nil {
			return out, fmt.Errorf("%s:%d: %s: %w", s.Path, st.Line, st.Words[0], err)
		}
		out = append(out, Reply{Step: st, Text: reply, Delay: t.lag()})
	}
	return out, nil
}

type storyRunner struct {
	server       Server
	rate         float64 // current rate of the server's clock
	runID        string
	totalOverrun time.Duration // how much longer waits took than in the story
	connections  map[string]*connection
	currentConn  *connection // nil means a separate connection for each command
}

func (t *storyRunner) lag() time.Duration { return t.server.Lag() + t.totalOverrun }

type directive struct {
	minArgs, maxArgs int  // number of arguments
	timeSensitive    bool // later replies depend on when they are requested
	instantMatters   bool // later replies depend on when the directive is run; other directives may take time
	run              func(*storyRunner, []string) error
}

var directives = map[string]directive{
	"wait":       {1, 1, true, false, (*storyRunner).wait},
	"second":     {0, 0, true, false, (*storyRunner).waitForSecond},
	"kill":       {0, 0, false, true, withRestarter(restarter.Kill)},
	"shutdown":   {0, 0, false, true, withRestarter(restarter.Shutdown)},
	"restart":    {0, 0, false, false, withRestarter(restarter.Restart)},
	"power-loss": {0, 1, false, true, (*storyRunner).losePower},
	"sync":       {0, 1, true, false, (*storyRunner).sync},
	"clock":      {1, 2, true, true, (*storyRunner).clock},
	"run_id":     {1, 1, false, false, (*storyRunner).checkRunID},
	"session":    {0, 1, false, false, (*storyRunner).session},
	"hang-up":    {0, 0, false, true, (*storyRunner).hangUp},
}

func directiveNames() string { return strings.Join(slices.Sorted(maps.Keys(directives)), ", ") }

var errUnsupported = errors.New("not supported by this server; add a line to the story: not <server>: <reason>")

// wait implements the directive wait <duration>.
func (t *storyRunner) wait(a []string) error {
	d, err := time.ParseDuration(a[0])
	if err != nil {
		return err
	}
	return t.server.Wait(d)
}

// waitForSecond implements the directive second: it waits until the server's clock is a tenth of a second
// into a new second, and resets the story's time.
func (t *storyRunner) waitForSecond([]string) error {
	if err := t.server.Wait(t.server.Lag()); err != nil {
		return err
	}
	now, err := t.time()
	if err != nil {
		return err
	}
	return t.server.Wait(now.Truncate(time.Second).Add(1100 * time.Millisecond).Sub(now))
}

// time returns the server's reply to TIME.
func (t *storyRunner) time() (time.Time, error) {
	v, err := t.server.Do([]string{"TIME"})
	if err != nil {
		return time.Time{}, err
	}
	w := v.Strings()
	if len(w) != 2 {
		return time.Time{}, fmt.Errorf("unexpected reply to TIME: %s", replyText(v))
	}
	seconds, err1 := strconv.ParseInt(w[0], 10, 64)
	micros, err2 := strconv.ParseInt(w[1], 10, 64)
	return time.Unix(seconds, micros*1000), errors.Join(err1, err2)
}

func withRestarter(f func(restarter) error) func(*storyRunner, []string) error {
	return func(t *storyRunner, _ []string) error {
		server, ok := t.server.(restarter)
		if !ok {
			return errUnsupported
		}
		return f(server)
	}
}

// losePower implements the directive power-loss [torn].
func (t *storyRunner) losePower(a []string) error {
	d, ok := t.server.(disk)
	if !ok {
		return errUnsupported
	}
	if len(a) == 1 && a[0] != "torn" {
		return fmt.Errorf("invalid power loss %q: want \"torn\" or nothing", a[0])
	}
	return d.LosePower(len(a) == 1)
}

const (
	syncStep    = 20 * time.Millisecond
	syncTimeout = 5 * time.Second // everysec takes at most two seconds
)

// sync implements the directive sync, which waits until a power loss would lose nothing and resets
// the story's time, and sync <duration>, a wait after which everything must be synced. If that
// takes longer, the server counts as late.
func (t *storyRunner) sync(a []string) error {
	d, ok := t.server.(disk)
	if !ok {
		return errUnsupported
	}
	if len(a) == 1 {
		if err := t.wait(a); err != nil {
			return err
		}
	}
	var overrun time.Duration
	for ; d.Unsynced(); overrun += syncStep {
		if overrun > syncTimeout {
			return fmt.Errorf("not everything is synced after %v", syncTimeout)
		}
		if err := t.server.Wait(syncStep); err != nil {
			return err
		}
	}
	if len(a) == 1 {
		t.totalOverrun += overrun
		return nil
	}
	return t.server.Wait(t.server.Lag())
}

// stillRate is the rate of a stopped clock: a nanosecond per millisecond.
const stillRate = 1e-6

// clock implements the directives clock +<duration>, clock -<duration>, clock rate <number>, and
// clock still, which stops the clock in the middle of a millisecond.
func (t *storyRunner) clock(a []string) error {
	c, ok := t.server.(clock)
	if !ok {
		return errUnsupported
	}
	switch {
	case a[0] == "still" && len(a) == 1:
		t.rate = stillRate
		if err := c.Adjust(0, stillRate); err != nil {
			return err
		}
		now, err := t.time()
		if err != nil {
			return err
		}
		return c.Adjust(now.Truncate(time.Millisecond).Add(time.Millisecond*3/2).Sub(now), stillRate)
	case a[0] == "rate" && len(a) == 2:
		rate, err := strconv.ParseFloat(a[1], 64)
		if err != nil {
			return err
		}
		t.rate = rate
		return c.Adjust(0, rate)
	case len(a) == 1:
		offset, err := time.ParseDuration(a[0])
		if err != nil {
			return err
		}
		return c.Adjust(offset, t.rate)
	}
	return fmt.Errorf("invalid clock directive: want +1s, -1s, rate 2 or still")
}

var runIDPattern = regexp.MustCompile(`run_id:([0-9a-f]{40})\r`)

// checkRunID implements the directives run_id noted and a later run_id kept or run_id new, which
// check whether the process was replaced.
func (t *storyRunner) checkRunID(a []string) error {
	v, err := t.server.Do([]string{"INFO", "server"})
	if err != nil {
		return err
	}
	m := runIDPattern.FindStringSubmatch(v.Str)
	if m == nil {
		return fmt.Errorf("INFO has no run_id: %s", replyText(v))
	}
	oldRunID := t.runID
	t.runID = m[1]
	switch {
	case a[0] == "noted":
		return nil
	case oldRunID == "":
		return errors.New("no run_id was noted before")
	case a[0] == "kept" && oldRunID == m[1], a[0] == "new" && oldRunID != m[1]:
		return nil
	}
	return fmt.Errorf("run_id is %s, was %s", m[1], oldRunID)
}
