package conformance

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Story is one file.
type Story struct {
	Path        string
	Persistence string
	Not         map[string]string // servers that it can't be told to, and why
	Steps       []step
	lines       []string
	scripts     map[string]string
}

// step is one command, or one directive.
type step struct {
	Line  int // of the file, from 1
	Words []string
	Reply string // of a command
	reply int    // its line; 0: it has none yet
}

// Command says whether it is one, or has a reply as one.
func (s step) Command() bool { return unicode.IsUpper(rune(s.Words[0][0])) || s.Words[0] == listening }

// read reads a story. Scripts are found below top.
func read(path, top string) (*Story, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read story: %w", err)
	}
	return parse(path, top, string(text))
}

func parse(path, top, text string) (*Story, error) {
	s := &Story{Path: path, Persistence: "none", Not: map[string]string{}, scripts: map[string]string{},
		lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	for i, line := range s.lines {
		if err := s.add(i+1, line, top); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	if len(s.Steps) == 0 {
		return nil, fmt.Errorf("%s: no step in it", path)
	}
	return s, nil
}

func (s *Story) add(number int, line, top string) error {
	if reply, indented := strings.CutPrefix(line, "\t"); indented {
		if n := len(s.Steps); n > 0 && s.Steps[n-1].Command() && s.Steps[n-1].reply == 0 {
			s.Steps[n-1].Reply, s.Steps[n-1].reply = reply, number
			return matchable(reply)
		}
		return fmt.Errorf("reply %q follows no command", reply)
	}
	if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
		return nil
	}
	if who, why, ok := strings.Cut(strings.TrimPrefix(line, "not "), ": "); ok && strings.HasPrefix(line, "not ") {
		s.Not[who] = why
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
		text, err := os.ReadFile(filepath.Join(top, words[2]))
		if err != nil {
			return err
		}
		sum := sha1.Sum(text)
		s.scripts["$"+words[1]], s.scripts["$"+words[1]+".sha"] = string(text), hex.EncodeToString(sum[:])
		return nil
	}
	step := step{Line: number, Words: words}
	if d := directives[words[0]]; !step.Command() && (d.run == nil || len(words)-1 < d.least || len(words)-1 > d.most) {
		return fmt.Errorf("%q is no directive: there are %s", line, known())
	}
	s.Steps = append(s.Steps, step)
	return nil
}

// split cuts a line at spaces. A word in double quotes is as in Go.
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

// mostLate is how late a server may be where a story tells time. Stories leave more
// room than that between what they ask at and what they ask for.
const mostLate = 250 * time.Millisecond

// slack is how late a reply may come to say something: as late as the closest of
// the story's bounds allow, and any time where it doesn't tell time.
func (s *Story) slack() time.Duration {
	slack := time.Duration(math.MaxInt64)
	for _, st := range s.Steps {
		if !st.Command() && directives[st.Words[0]].tellsTime {
			slack = min(slack, mostLate)
		}
		if _, within, ok := bounds(st.Reply); ok {
			slack = min(slack, mostLate, time.Duration(within)*time.Millisecond)
		}
	}
	return slack
}

// rewritten is the story's text with these replies where they differ from its own.
func (s *Story) rewritten(replies []Reply) string {
	var b strings.Builder
	byLine := map[int]string{} // the line that a reply takes the place of, or follows
	skip := map[int]bool{}
	for _, r := range replies {
		if !r.Step.Command() || r.Step.reply != 0 && matches(r.Step.Reply, r.Text) {
			continue
		}
		byLine[r.Step.Line], skip[r.Step.reply] = r.Text, true
	}
	for i, line := range s.lines {
		if skip[i+1] {
			continue
		}
		fmt.Fprintln(&b, line)
		if text, ok := byLine[i+1]; ok {
			fmt.Fprintln(&b, "\t"+text)
		}
	}
	return b.String()
}
