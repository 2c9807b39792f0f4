package conformance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/resp"
)

// Reply is what a server answered to a step. A directive has no text.
type Reply struct {
	Step step
	Text string
	Late time.Duration // when it was there, or the directive was due, against the story
}

// differences compares replies with the story's own.
func differences(s *Story, replies []Reply) (out []string) {
	for _, r := range replies {
		if !r.Step.Command() {
			continue
		}
		if r.Step.Reply == "" || !matches(r.Step.Reply, r.Text) {
			out = append(out, fmt.Sprintf("%s:%d: %.200q\n got %s\nwant %s", s.Path, r.Step.Line, r.Step.Words, r.Text, r.Step.Reply))
		}
	}
	return out
}

// Late is the first reply that came too late to say something.
func Late(s *Story, replies []Reply) (r Reply, late bool) {
	slack := s.slack()
	for _, r := range replies {
		if r.Late > slack {
			return r, true
		}
	}
	return Reply{}, false
}

// text writes a reply as stories do.
func text(v resp.Value) string {
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
			items[i] = text(item)
		}
		return strings.Trim(string(v.Kind), "*") + "[" + strings.Join(items, " ") + "]"
	}
	return string(v.Kind) + v.Str
}

var bounded = regexp.MustCompile(`^~(-?\d+)±(\d+)$`)

// bounds reads ~number±tolerance.
func bounds(want string) (number, within int64, ok bool) {
	m := bounded.FindStringSubmatch(want)
	if m == nil {
		return 0, 0, false
	}
	number, err1 := strconv.ParseInt(m[1], 10, 64)
	within, err2 := strconv.ParseInt(m[2], 10, 64)
	return number, within, err1 == nil && err2 == nil
}

// pattern reads /regular expression/.
func pattern(want string) (expr string, ok bool) {
	if len(want) < 2 || want[0] != '/' || want[len(want)-1] != '/' {
		return "", false
	}
	return want[1 : len(want)-1], true
}

// matchable says what is wrong with a reply that nothing could match.
func matchable(want string) error {
	if _, _, ok := bounds(want); !ok && strings.HasPrefix(want, "~") {
		return fmt.Errorf("%q is not ~number±tolerance", want)
	}
	if expr, ok := pattern(want); ok {
		_, err := regexp.Compile(expr)
		return err
	}
	return nil
}

func matches(want, got string) bool {
	if number, within, ok := bounds(want); ok {
		n, err := strconv.ParseInt(strings.TrimPrefix(got, ":"), 10, 64)
		return err == nil && got[0] == ':' && n >= number-within && n <= number+within
	}
	if expr, ok := pattern(want); ok {
		return regexp.MustCompile(expr).MatchString(got)
	}
	return want == got
}
