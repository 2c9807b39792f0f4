package suites

import (
	"strings"

	"lockpick/reports/words"
)

// longestText bounds one text of a report, in characters; nobody reads more, and files
// from elsewhere may hold anything.
const longestText = 4096

func visible(s string) string { return words.Visible(s, longestText) }

// markdown writes a text so that Markdown shows it as it is, in a cell of a table, too.
var markdownEscapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;",
	"&", "&amp;", "|", `\|`, "#", `\#`, "~", `\~`, "!", `\!`, "@", "@\u200b")

func markdown(s string) string { return markdownEscapes.Replace(visible(s)) }
