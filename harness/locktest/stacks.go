package locktest

import (
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"

	"lockpick/harness/lock"
)

// packageOf is the path of the package that a factory is of, as stacks have it.
func packageOf(f lock.Factory) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	folder := strings.LastIndex(name, "/") + 1
	base, _, _ := strings.Cut(name[folder:], ".")
	return name[:folder] + base
}

// mostStacks bounds the goroutines that are told.
const mostStacks = 5

// addresses are those of frames, which say nothing to a reader.
var addresses = regexp.MustCompile(` fp=0x[0-9a-f]+ sp=0x[0-9a-f]+ pc=0x[0-9a-f]+| gp=0x[0-9a-f]+ m=\S+|(?m)^PC=.*\n`)

// stacks are the goroutines of a dump that are in the lock's package, or the first where none
// is, behind what was printed before them. That of the test, which waits for all, is left out.
func stacks(dump, pkg string) string {
	var lock, other []string
	before, rest, _ := strings.Cut("\n"+addresses.ReplaceAllString(dump, ""), "\ngoroutine ")
	if rest == "" {
		return strings.TrimSpace(dump)
	}
	for part := range strings.SplitSeq("\n"+rest, "\n\ngoroutine ") {
		switch part = "goroutine " + strings.TrimSpace(part); {
		case strings.Contains(part, "locktest.(*run).work("):
		case strings.Contains(part, "\n"+pkg+"."):
			lock = append(lock, part)
		default:
			other = append(other, part)
		}
	}
	title := "goroutines in " + pkg
	if len(lock) == 0 {
		title, lock = "goroutines, none of them in "+pkg, other
	}
	shown := lock[:min(mostStacks, len(lock))]
	return strings.TrimSpace(fmt.Sprintf("%s\n\n%s (%d of %d):\n\n%s", strings.TrimSpace(before), title, len(shown), len(lock), strings.Join(shown, "\n\n")))
}
