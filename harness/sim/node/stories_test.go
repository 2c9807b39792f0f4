// Conformance tests run each story in testdata/conformance against the simulated node, a real
// redis-server and miniredis, and require the same replies from all of them. If replies differ,
// redis-server is right.
//
// A Story consists of commands with their replies, and directives such as wait, kill, restart and
// clock. It runs against a Server. A Reply is the server's reply and how late it was. Each optional
// capability of a server has its own interface: restarter, disk, clock, dialer.
//
//	# topic of the story
//	not miniredis: it has no disk        reason for excluding a server
//	persistence everysec                 none, everysec, always or no; default none
//	script release path/from/top.lua     defines $release, its source, and $release.sha, its SHA-1
//
//	SET k v PX 10000                     a command begins with a capital letter,
//		+OK                              its reply with a tab: as sent, a number within
//	PTTL k                               bounds (~10000±100), or a pattern (/run_id:\w+/)
//		~10000±100
//	wait 1.1s                            a directive begins with a lowercase letter
//
// The directives are wait, second (wait for the start of a second), kill, shutdown, restart,
// power-loss [torn], sync [duration], clock (+1s, -1s, rate 2, still), run_id (noted, kept, new),
// session <name> (use one connection from now on; without a name, each command has its own) and
// hang-up (close the connection). @name stands for that session's ID. The reply to heard lists what
// the server has pushed on the session's connection since the previous heard. go test -update writes
// redis-server's replies into the stories.
//
// Waits refer to the story's time: each wait ends at a fixed time after the first command, so that
// the time taken by commands does not add up. If a server lags behind by more than the story
// allows, its replies are discarded and the story is run again.
//
// Not covered: concurrent commands, and more than one node. The simulation's network and its faults
// have separate tests.

package node

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"lockpick/harness/resp"
)

// Server is a server that stories are run against.
type Server interface {
	// Do sends one command. It returns an error reply as a reply, not as an error.
	Do(words []string) (resp.Value, error)
	// Wait advances the story's time by d and waits until then.
	Wait(d time.Duration) error
	// Lag returns how far the server lags behind the story's time. It is 0 in virtual time.
	Lag() time.Duration
}

// restarter is a server that can be killed, shut down and restarted.
type restarter interface {
	Kill() error
	Shutdown() error
	Restart() error
}

// disk is a server whose machine can lose power and, with it, unsynced data.
type disk interface {
	// LosePower ends the server, too. If torn is set, half of the first lost write survives.
	LosePower(torn bool) error
	// Unsynced reports whether a power loss would lose data.
	Unsynced() bool
}

// clock is a server whose clock can be set and whose clock rate can be changed.
type clock interface {
	Adjust(by time.Duration, rate float64) error
}

// dialer is a server that accepts several connections.
type dialer interface {
	Dial() (serverConn, error)
}

// serverConn is a connection to a server.
type serverConn interface {
	Send(words []string) error
	// Next returns the next value, or an error if none arrives in time.
	Next() (resp.Value, error)
	Close() error
}

// connection is a session in a story.
type connection struct {
	conn   serverConn
	id     string   // the session's ID on the server
	pushes []string // pushes that the story has not read yet
}

// session implements the directive session <name>: it switches to the named connection and opens it
// if necessary. Without a name, each command uses a separate connection again.
func (t *storyRunner) session(a []string) error {
	if t.currentConn = nil; len(a) == 0 {
		return nil
	}
	if t.currentConn = t.connections[a[0]]; t.currentConn != nil {
		return nil
	}
	d, ok := t.server.(dialer)
	if !ok {
		return errUnsupported
	}
	conn, err := d.Dial()
	if err != nil {
		return err
	}
	t.currentConn = &connection{conn: conn}
	t.connections[a[0]] = t.currentConn
	id, err := t.currentConn.ask([]string{"CLIENT", "ID"})
	t.currentConn.id = strings.TrimPrefix(id, ":")
	return err
}

// expandSessions replaces each @name with the named session's ID.
func (t *storyRunner) expandSessions(words []string) []string {
	words = slices.Clone(words)
	for i, w := range words {
		if c := t.connections[strings.TrimPrefix(w, "@")]; c != nil && strings.HasPrefix(w, "@") {
			words[i] = c.id
		}
	}
	return words
}

func (t *storyRunner) hangUp([]string) error {
	if t.currentConn == nil {
		return errors.New("no session: choose one with session <name>")
	}
	for name, c := range t.connections {
		if c == t.currentConn {
			delete(t.connections, name)
		}
	}
	conn := t.currentConn.conn
	t.currentConn = nil
	return conn.Close()
}

func (t *storyRunner) close() {
	for _, c := range t.connections {
		c.conn.Close()
	}
}

// execute sends a command on the current connection and returns its reply.
func (t *storyRunner) execute(words []string) (string, error) {
	switch {
	case words[0] == heardStep && t.currentConn == nil:
		return "", errors.New("no session: choose one with session <name>")
	case words[0] == heardStep:
		return t.currentConn.takePushes()
	case t.currentConn != nil:
		return t.currentConn.ask(t.expandSessions(words))
	}
	v, err := t.server.Do(words)
	return replyText(v), err
}

// heardStep is a step whose reply lists the pushes on the connection since the previous such step.
const heardStep = "heard"

// takePushes returns the pushes since the last call. It sends a PING first, because all earlier
// pushes arrive before its reply.
func (c *connection) takePushes() (string, error) {
	if _, err := c.ask([]string{"PING"}); err != nil {
		return "", err
	}
	joined := strings.Join(c.pushes, " ")
	c.pushes = nil
	if joined == "" {
		joined = "nothing"
	}
	return joined, nil
}

// ask returns the reply to a command and stores pushes that arrive before the reply.
func (c *connection) ask(words []string) (string, error) {
	if err := c.conn.Send(words); err != nil {
		return "", err
	}
	replies := 1
	if name := strings.ToUpper(words[0]); name == "SUBSCRIBE" || name == "UNSUBSCRIBE" {
		replies = max(1, len(words)-1)
	}
	var texts []string
	for len(texts) < replies {
		v, err := c.conn.Next()
		if err != nil {
			return "", fmt.Errorf("no reply to %q: %w", words[0], err)
		}
		if isPush(v) {
			c.pushes = append(c.pushes, replyText(v))
			continue
		}
		texts = append(texts, replyText(v))
	}
	return strings.Join(texts, " "), nil
}

// isPush reports whether a value is a push. In RESP3, the reply to SUBSCRIBE has the type of a
// push; in RESP2, a push has the type of an array.
func isPush(v resp.Value) bool {
	messageType := ""
	if len(v.Items) > 0 {
		messageType = v.Items[0].Str
	}
	switch v.Kind {
	case '>':
		return messageType != "subscribe" && messageType != "unsubscribe"
	case '*':
		return messageType == "message"
	}
	return false
}

// Reply is a server's reply to a step. A directive's Text is empty.
type Reply struct {
	Step  step
	Text  string
	Delay time.Duration // how much later than in the story the step was done
}

// differences describes how replies differ from those in the story.
func differences(s *Story, replies []Reply) (out []string) {
	for _, r := range replies {
		if !r.Step.HasReply() {
			continue
		}
		if r.Step.Reply == "" || !matches(r.Step.Reply, r.Text) {
			out = append(out, fmt.Sprintf("%s:%d: %.200q\n got %s\nwant %s", s.Path, r.Step.Line, r.Step.Words, r.Text, r.Step.Reply))
		}
	}
	return out
}

// firstLateReply returns the first reply that arrived too late to count.
func firstLateReply(s *Story, replies []Reply) (r Reply, late bool) {
	limit := s.maxLateness()
	for _, r := range replies {
		if r.Delay > limit {
			return r, true
		}
	}
	return Reply{}, false
}

// replyText formats a reply as in stories.
func replyText(v resp.Value) string {
	switch {
	case v.Null:
		return "nil"
	case v.Kind == ':':
		return fmt.Sprintf(":%d", v.Int)
	case v.Kind == '$':
		return strconv.Quote(v.Str)
	case v.Kind == '*', v.Kind == '>', v.Kind == '%', v.Kind == '~':
		items := make([]string, len(v.Items))
		for i, item := range v.Items {
			items[i] = replyText(item)
		}
		return strings.Trim(string(v.Kind), "*") + "[" + strings.Join(items, " ") + "]"
	}
	return string(v.Kind) + v.Str
}

var boundsPattern = regexp.MustCompile(`^~(-?\d+)±(\d+)$`)

// parseBounds parses "~number±tolerance".
func parseBounds(want string) (number, tolerance int64, ok bool) {
	m := boundsPattern.FindStringSubmatch(want)
	if m == nil {
		return 0, 0, false
	}
	number, err1 := strconv.ParseInt(m[1], 10, 64)
	tolerance, err2 := strconv.ParseInt(m[2], 10, 64)
	return number, tolerance, err1 == nil && err2 == nil
}

// parsePattern parses "/regular expression/".
func parsePattern(want string) (expr string, ok bool) {
	if len(want) < 2 || want[0] != '/' || want[len(want)-1] != '/' {
		return "", false
	}
	return want[1 : len(want)-1], true
}

// checkReply returns an error if an expected reply has invalid syntax.
func checkReply(want string) error {
	if _, _, ok := parseBounds(want); !ok && strings.HasPrefix(want, "~") {
		return fmt.Errorf("%q is not ~number±tolerance", want)
	}
	if expr, ok := parsePattern(want); ok {
		_, err := regexp.Compile(expr)
		return err
	}
	return nil
}

func matches(want, got string) bool {
	if number, tolerance, ok := parseBounds(want); ok {
		n, err := strconv.ParseInt(strings.TrimPrefix(got, ":"), 10, 64)
		return err == nil && got[0] == ':' && n >= number-tolerance && n <= number+tolerance
	}
	if expr, ok := parsePattern(want); ok {
		return regexp.MustCompile(expr).MatchString(got)
	}
	return want == got
}

// Story is a parsed story file.
type Story struct {
	Path        string
	Persistence string
	Excluded    map[string]string // reasons why the story can't be run, by server
	Steps       []step
	lines       []string
	scripts     map[string]string
}

// step is a command or a directive.
type step struct {
	Line      int // counted from 1
	Words     []string
	Reply     string // a command's expected reply
	replyLine int    // line of the reply; 0: none yet
}

func (s step) HasReply() bool { return unicode.IsUpper(rune(s.Words[0][0])) || s.Words[0] == heardStep }

// readStory reads a story. Script paths are relative to baseDir.
func readStory(path, baseDir string) (*Story, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read story: %w", err)
	}
	return parseStory(path, baseDir, string(text))
}

func parseStory(path, baseDir, text string) (*Story, error) {
	s := &Story{Path: path, Persistence: "none", Excluded: map[string]string{}, scripts: map[string]string{},
		lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	for i, line := range s.lines {
		if err := s.add(i+1, line, baseDir); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	if len(s.Steps) == 0 {
		return nil, fmt.Errorf("%s: no steps", path)
	}
	return s, nil
}

func (s *Story) add(number int, line, baseDir string) error {
	if reply, indented := strings.CutPrefix(line, "\t"); indented {
		if n := len(s.Steps); n > 0 && s.Steps[n-1].HasReply() && s.Steps[n-1].replyLine == 0 {
			s.Steps[n-1].Reply, s.Steps[n-1].replyLine = reply, number
			return checkReply(reply)
		}
		return fmt.Errorf("reply %q does not follow a command", reply)
	}
	if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
		return nil
	}
	if server, reason, ok := strings.Cut(strings.TrimPrefix(line, "not "), ": "); ok && strings.HasPrefix(line, "not ") {
		s.Excluded[server] = reason
		return nil
	}
	words, err := s.split(line)
	if err != nil {
		return err
	}
	switch {
	case words[0] == "persistence" && len(words) == 2:
		s.Persistence = words[1]
		return nil
	case words[0] == "script" && len(words) == 3:
		text, err := os.ReadFile(filepath.Join(baseDir, words[2]))
		if err != nil {
			return err
		}
		sum := sha1.Sum(text)
		s.scripts["$"+words[1]], s.scripts["$"+words[1]+".sha"] = string(text), hex.EncodeToString(sum[:])
		return nil
	}
	step := step{Line: number, Words: words}
	if d := directives[words[0]]; !step.HasReply() && (d.run == nil || len(words)-1 < d.minArgs || len(words)-1 > d.maxArgs) {
		return fmt.Errorf("%q is not a directive: want one of %s", line, directiveNames())
	}
	s.Steps = append(s.Steps, step)
	return nil
}

// split splits a line at spaces. Words in double quotes follow Go syntax.
func (s *Story) split(line string) (words []string, err error) {
	for ; line != ""; line = strings.TrimLeft(line, " ") {
		word, _, _ := strings.Cut(line, " ")
		rest := line[len(word):]
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, fmt.Errorf("words of %q: %w", line, err)
			}
			rest = line[len(quoted):]
			if word, err = strconv.Unquote(quoted); err != nil {
				return nil, fmt.Errorf("words of %q: %w", line, err)
			}
		} else if word[0] == '$' {
			text, ok := s.scripts[word]
			if !ok {
				return nil, fmt.Errorf("no script %s", word)
			}
			word = text
		}
		words, line = append(words, word), rest
	}
	return words, nil
}

// maxDelay is the maximum delay of a reply in a time-sensitive story. Stories leave more time than
// this between a command and the instant at which its reply would change.
const maxDelay = 250 * time.Millisecond

// maxLateness returns the maximum delay of a reply that still counts: the smallest tolerance in the
// story, or no limit if the story is not time-sensitive.
func (s *Story) maxLateness() time.Duration {
	limit := time.Duration(math.MaxInt64)
	for _, st := range s.Steps {
		if !st.HasReply() && directives[st.Words[0]].timeSensitive {
			limit = min(limit, maxDelay)
		}
		if _, tolerance, ok := parseBounds(st.Reply); ok {
			limit = min(limit, maxDelay, time.Duration(tolerance)*time.Millisecond)
		}
	}
	return limit
}

// rewrite returns the story's text with expected replies replaced by actual replies where they
// differ.
func (s *Story) rewrite(replies []Reply) string {
	var b strings.Builder
	newReplies := map[int]string{} // replies, by the line after which they go
	replaced := map[int]bool{}
	for _, r := range replies {
		if !r.Step.HasReply() || r.Step.replyLine != 0 && matches(r.Step.Reply, r.Text) {
			continue
		}
		newReplies[r.Step.Line], replaced[r.Step.replyLine] = r.Text, true
	}
	for i, line := range s.lines {
		if replaced[i+1] {
			continue
		}
		fmt.Fprintln(&b, line)
		if text, ok := newReplies[i+1]; ok {
			fmt.Fprintln(&b, "\t"+text)
		}
	}
	return b.String()
}
