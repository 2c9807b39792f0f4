package locktest

import (
	"fmt"
	"reflect"
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

// stacks are the goroutines of a dump that are in the lock's package, or all where none is,
// behind what was printed before them.
func stacks(dump, pkg string) string {
	var lock, other []string
	before, rest, _ := strings.Cut("\n"+dump, "\n\ngoroutine ")
	if rest == "" {
		return strings.TrimSpace(dump)
	}
	for part := range strings.SplitSeq(rest, "\n\ngoroutine ") {
		part = "goroutine " + strings.TrimSpace(part)
		if strings.Contains(part, "\n"+pkg+".") {
			lock = append(lock, part)
		} else {
			other = append(other, part)
		}
	}
	title := "goroutines in " + pkg
	if len(lock) == 0 {
		title, lock = "goroutines, none of them in "+pkg, other
	}
	shown := lock[:min(mostStacks, len(lock))]
	return fmt.Sprintf("%s\n\n%s (%d of %d):\n\n%s", strings.TrimSpace(before), title, len(shown), len(lock), strings.Join(shown, "\n\n"))
}
