package suites

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestText bounds one text of a report, in bytes; nobody reads more, and files from
// elsewhere may hold anything.
const longestText = 4096

// visible clips a text and writes as an escape what a reader could not see, or what
// changes how the rest is shown.
func visible(s string) string {
	cut := ""
	if len(s) > longestText {
		s, cut = s[:longestText], "…"
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case !unicode.IsPrint(r) && r != '\u00a0':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + cut
}

// markdown writes a text so that Markdown shows it as it is, in a cell of a table, too.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;",
	"&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`, "!", `\!`, "@", "@\u200b")

func markdown(s string) string { return markdownEscapes.Replace(visible(s)) }
