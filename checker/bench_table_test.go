//go:build bench && linux

package checker

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
)

const benchHead = `
This checker beside porcupine, on the same histories (contention_test.go).

An operation is an acquire or a release with its call and return; unknown is how
many of them got no answer. A violated history has one violation, in its last
tenth. Each judge is a process of its own:
  checker     Check with mutual-exclusion and lease-linearizable; all: with every
              property. One core (GOMAXPROCS=1); limits %s and %s
  mutex       porcupine, a plain mutex: no expiry
  lease       porcupine, the lease with time in its states (porcupine.go).
              Both: all keys at once, on all %d cores; limits %s and %s
time    of the judgement alone: not of making the history, nor of translating it
        for porcupine. The median of %d times, or of as many as fit into %s.
        A star: it had a core for less than four fifths of that, for the machine
        was busy.
memory  the most that was resident (VmHWM) during the judgement, less what was
        before it, history included. Go's garbage collector as it is by default.
A judge that gave up is ended, and not asked about more operations of that kind.

`

var (
	ownLimit  = benchLimit{time: 10 * time.Minute, memory: 12e9, cores: 1}
	peerLimit = benchLimit{time: 20 * time.Second, memory: 4e9}
)

// benchColumns are the judges, in order.
var benchColumns = []struct {
	judge, title string
	limit        benchLimit
	perOperation bool
}{
	{"two", "checker", ownLimit, true},
	{"all", "all", ownLimit, false},
	{"mutex", "mutex", peerLimit, false},
	{"lease", "lease", peerLimit, false},
}

// TestBesidePeers prints the table, row by row. Its parts can be chosen by
// environment variables: SIZES=1k,10M UNKNOWN=0,5 KEYS=1 VERDICTS=violated. A size
// by itself has its peers asked, whatever they gave up on at smaller ones. It fails
// if somebody's answer is wrong, not if it was slow.
func TestBesidePeers(t *testing.T) {
	fmt.Printf(benchHead, short(ownLimit.time), size(ownLimit.memory), runtime.NumCPU(), short(peerLimit.time), size(peerLimit.memory),
		benchTimes, short(benchEnough))
	fmt.Printf("%5s %4s %7s %-8s", "ops", "keys", "unknown", "history")
	for _, c := range benchColumns {
		fmt.Print(" | ", benchCell(c.perOperation, c.title, "ns/op", "memory"))
	}
	fmt.Println(" | goals")
	b := bench{T: t, gaveUp: map[string]string{}, perOperation: map[contention][]sized{}}
	for _, n := range choices("SIZES", "1k,10k,100k,1M,10M") {
		for _, keys := range choices("KEYS", "1,10") {
			for _, unknown := range choices("UNKNOWN", "0,1,5,50") {
				for _, violated := range verdicts() {
					b.row(contention{operations: n, keys: keys, unknown: unknown, violated: violated, seed: 1})
				}
			}
		}
	}
	b.growth()
}

type bench struct {
	*testing.T
	gaveUp       map[string]string // judge and kind of history: the size
	kinds        []contention      // without their size, in order
	perOperation map[contention][]sized
}

// sized is what one operation takes in a history of so many.
type sized struct {
	operations int
	ns         float64
	busy       bool // the machine was
}

func (b *bench) row(c contention) {
	want := map[bool]verdict.Outcome{false: verdict.Holds, true: verdict.Violated}[c.violated]
	fmt.Printf("%5s %4d %5d %% %-8s", count1000(c.operations), c.keys, c.unknown, benchVerdicts[c.violated])
	var own benchFigures
	for _, col := range benchColumns {
		f := b.ask(col.judge, c, col.limit)
		if f.gaveUp == "" && f.answer != want {
			b.Errorf("%s says that %+v is %s", col.judge, c, f.answer)
			f.gaveUp = "wrong: " + string(f.answer)
		}
		ns := float64(f.time) / float64(c.operations)
		if f.gaveUp != "" {
			fmt.Print(" | ", benchCell(col.perOperation, f.gaveUp, "", ""))
		} else {
			fmt.Print(" | ", benchCell(col.perOperation, f.told(), fmt.Sprintf("%.0f", ns), size(f.memory)))
		}
		if col.judge == "two" {
			own = f
		}
	}
	fmt.Println(" |", goals(c, own))
	if own.gaveUp == "" {
		kind := c
		kind.operations = 0
		if b.perOperation[kind] == nil {
			b.kinds = append(b.kinds, kind)
		}
		b.perOperation[kind] = append(b.perOperation[kind], sized{c.operations, float64(own.time) / float64(c.operations), own.disturbed()})
	}
}

// ask asks a judge, unless it gave up on fewer operations of the kind.
func (b *bench) ask(judge string, c contention, limit benchLimit) benchFigures {
	kind := c
	kind.operations = 0
	id := benchSpec(judge, kind)
	if at := b.gaveUp[id]; at != "" {
		return benchFigures{gaveUp: "gave up at " + at}
	}
	f, err := askJudge(judge, c, limit)
	if err != nil {
		b.Error(err)
		f.gaveUp = "failed"
	}
	if f.gaveUp != "" {
		b.gaveUp[id] = count1000(c.operations)
	}
	return f
}

// goals is what the checker must reach, and whether it does.
func goals(c contention, f benchFigures) string {
	var all []string
	goal := func(text string, met bool) {
		all = append(all, text+map[bool]string{true: ": met", false: ": MISSED"}[met && f.gaveUp == ""])
	}
	switch {
	case c.operations == 1e6 && c.unknown == 5 && c.violated:
		goal("≤ 0.5 s", f.time <= 500*time.Millisecond)
	case c.operations == 1e7:
		goal("≤ 8 s", f.time <= 8*time.Second)
		goal("≤ 2 GB", f.memory <= 2e9)
	}
	return strings.Join(all, ", ")
}

// growth says how the cost of an operation grows, beside what n log n allows.
func (b *bench) growth() {
	fmt.Println("\nns per operation of the checker by size; from the first size to the last: seen, and what n log n allows")
	for _, kind := range b.kinds {
		all := b.perOperation[kind]
		fmt.Printf("%4d keys %3d %% %-8s", kind.keys, kind.unknown, benchVerdicts[kind.violated])
		for _, s := range all {
			fmt.Printf("  %5s %6.0f%s", count1000(s.operations), s.ns, map[bool]string{false: " ", true: "*"}[s.busy])
		}
		first, last := all[0], all[len(all)-1]
		if len(all) > 1 {
			fmt.Printf("  ×%.2f, ×%.2f", last.ns/first.ns, math.Log(float64(last.operations))/math.Log(float64(first.operations)))
		}
		fmt.Println()
	}
}

func benchCell(perOperation bool, time, ns, memory string) string {
	switch {
	case ns+memory == "": // it gave up, and time says why
		return fmt.Sprintf("%-*s", map[bool]int{true: 26, false: 20}[perOperation], time)
	case perOperation:
		return fmt.Sprintf("%10s %6s%9s", time, ns, memory)
	}
	return fmt.Sprintf("%-11s%9s", time, memory)
}

// choice is the value of an environment variable, or what is usual.
func choice(name, usual string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return usual
}

// choices are its numbers.
func choices(name, usual string) []int {
	var ns []int
	for _, text := range strings.Split(choice(name, usual), ",") {
		digits := strings.NewReplacer("k", "000", "M", "000000").Replace(text)
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			panic(fmt.Sprintf("%s=%s: want numbers such as 0, 5, 10k or 1M, with commas between", name, os.Getenv(name)))
		}
		ns = append(ns, n)
	}
	return ns
}

var benchVerdicts = map[bool]string{false: "valid", true: "violated"}

// verdicts are the kinds of history asked for: violated or not.
func verdicts() []bool {
	asked := strings.Split(choice("VERDICTS", "valid,violated"), ",")
	var kinds []bool
	for _, violated := range []bool{false, true} {
		if slices.Contains(asked, benchVerdicts[violated]) {
			kinds = append(kinds, violated)
		}
	}
	if len(kinds) != len(asked) {
		panic(fmt.Sprintf("VERDICTS=%s: want valid, violated or both, with a comma between", os.Getenv("VERDICTS")))
	}
	return kinds
}

// count1000 is a count in thousands or millions, where it is a whole number of these.
func count1000(n int) string {
	switch {
	case n%1e6 == 0:
		return fmt.Sprintf("%d M", n/1e6)
	case n%1e3 == 0:
		return fmt.Sprintf("%d k", n/1e3)
	}
	return strconv.Itoa(n)
}
