package main

import (
	"embed"
	"strings"
	"unicode/utf8"

	"lockpick/checker"
	"lockpick/harness/scenario"
)

// topics are help pages that belong to no command: topics/NAME.txt has their text.
var topics = []struct{ name, short string }{
	{"exit-codes", "what the exit code says"},
	{"files", "what a run leaves on disk"},
	{"verdict-file", "what stands in verdict.json and outcome.json"},
	{"faults", "what can go wrong on purpose"},
	{"locks", "what can be tested, and what each lock is held to"},
	{"scenario-format", "how to write a scenario"},
	{"properties", "what is checked"},
	{"shards", "how to run a sweep on several machines"},
}

//go:embed topics/*.txt
var texts embed.FS

// topic is the text of a help page. A word in capitals and braces stands for what the code
// knows better: the table of faults, the bounds of a run, the numbers that it measures.
func topic(name string) string {
	text, err := texts.ReadFile("topics/" + name + ".txt")
	if err != nil {
		panic(err) // the table above names a file that there isn't
	}
	return strings.NewReplacer(
		"{FAULTS}", faults(),
		"{LOCKS}", lockTable(),
		"{BOUNDS}", wrapped(0, 0, "What one run may have at most: "+strings.Join(scenario.Bounds(), "; ")+
			". More is refused where it stands, and a run that records more events is stopped there, undecided. "+
			"What is scaled is held to the same bounds. FILE is a regular file of at most a megabyte: no pipe, no device."),
		"{NUMBERS}", wrapped(len("expected: "), 0, strings.Join(checker.Numbers(), ", ")+"."),
	).Replace(strings.TrimSuffix(string(text), "\n"))
}

// helpWidth is how wide help is.
const helpWidth = 84

// wrapped breaks a text of help into lines.
func wrapped(first, others int, text string) string { return within(helpWidth, first, others, text) }

// within breaks a text into lines of a width, the first of which begins at one column and
// the others at another.
func within(width, first, others int, text string) string {
	var b strings.Builder
	at := first
	for i, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			at += n
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", others))
			at = others + n
		default:
			b.WriteString(" ")
			at += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
