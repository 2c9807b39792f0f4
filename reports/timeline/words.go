package timeline

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	longestText = 400
	longestName = 24
)

// short cuts a name, so that one name can't take the room of the lanes.
func short(name string) string { return clip(name, longestName) }

// clip makes s valid UTF-8 of at most n characters, the last of them an ellipsis.
// Control characters are shown as the picture of themselves.
func clip(s string, n int) string {
	if len(s) > 4*n+4 {
		s = s[:4*n+4]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r < ' ':
			return '\u2400' + r
		case r == 0x7f:
			return '\u2421'
		case r >= 0x80 && r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\uFFFD' // what would turn the direction of writing, or hide
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// seconds writes an instant to the millisecond.
func seconds(ns int64) string {
	return strconv.FormatFloat(float64(ns)/1e9, 'f', 3, 64) + " s"
}

// span writes a length of time to three digits.
func span(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Second || d <= -time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond || d <= -time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.String()
}

// sentence joins the parts that say something.
func sentence(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "; ")
}
