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

const benchHeader = `
This checker compared with porcupine, on the same histories (contention_test.go).

An operation is an acquire or a release with its call and return. "unknown" is the
share of operations without an answer. A violated history has one violation, in
its last tenth. Each judge runs in a separate process:
  checker     Check with mutual-exclusion and lease-linearizable
  all         Check with every property
              Both run on one core (GOMAXPROCS=1); limits %s and %s
  mutex       porcupine with a plain mutex, which has no expiry
  lease       porcupine with the lease, whose states contain the time (package second)
              Both check all keys at once, on all %d cores; limits %s and %s
time    of the judgment alone, without generating the history or translating it
        for porcupine: the median of %d runs, or of as many as fit into %s.
        An asterisk means that the judge had a core for less than four fifths of
        the time because the machine was busy.
memory  increase in peak resident memory (VmHWM) during the judgment, including the
        history. Go's garbage collector has its default settings.
A judge that exceeds its limits is killed and skips larger histories of the same kind.

`

var (
	checkerLimit = benchLimit{time: 10 * time.Minute, memory: 12e9, cores: 1}
	peerLimit    = benchLimit{time: 20 * time.Second, memory: 4e9}
)

// benchColumns lists the judges in column order.
var benchColumns = []struct {
	judge, title string
	limit        benchLimit
	perOperation bool
}{
	{"two", "checker", checkerLimit, true},
	{"all", "all", checkerLimit, false},
	{"mutex", "mutex", peerLimit, false},
	{"lease", "lease", peerLimit, false},
}

// TestCompareWithPeers prints the table row by row. Environment variables select a part of it:
// SIZES=1k,10M UNKNOWN=0,5 KEYS=1 VERDICTS=violated. With a single size, all peers run, even if
// they would have given up at a smaller size. The test fails if an answer is wrong, but not if it is
// slow.
func TestCompareWithPeers(t *testing.T) {
	fmt.Printf(benchHeader, formatDuration(checkerLimit.time), formatBytes(checkerLimit.memory), runtime.NumCPU(), formatDuration(peerLimit.time), formatBytes(peerLimit.memory),
		benchTimes, formatDuration(benchTimeLimit))
	fmt.Printf("%5s %4s %7s %-8s", "ops", "keys", "unknown", "history")
	for _, c := range benchColumns {
		fmt.Print(" | ", benchCell(c.perOperation, c.title, "ns/op", "memory"))
	}
	fmt.Println(" | goals")
	b := bench{T: t, giveUpSizes: map[string]string{}, perOperation: map[contention][]timePerOp{}}
	for _, n := range envNumbers("SIZES", "1k,10k,100k,1M,10M") {
		for _, keys := range envNumbers("KEYS", "1,10") {
			for _, unknown := range envNumbers("UNKNOWN", "0,1,5,50") {
				for _, violated := range historyKinds() {
					b.row(contention{operations: n, keys: keys, unknownPercent: unknown, violated: violated, seed: 1})
				}
			}
		}
	}
	b.printGrowth()
}

type bench struct {
	*testing.T
	giveUpSizes  map[string]string // by judge and kind of history: the size at which the judge gave up
	kinds        []contention      // in order of their rows, without sizes
	perOperation map[contention][]timePerOp
}

// timePerOp is a judge's time per operation in a history of the given number of operations.
type timePerOp struct {
	operations int
	ns         float64
	busy       bool // the machine was busy
}

func (b *bench) row(c contention) {
	want := map[bool]verdict.Outcome{false: verdict.Holds, true: verdict.Violated}[c.violated]
	fmt.Printf("%5s %4d %5d %% %-8s", formatCount(c.operations), c.keys, c.unknownPercent, benchVerdicts[c.violated])
	var checkerFigures benchFigures
	for _, col := range benchColumns {
		f := b.run(col.judge, c, col.limit)
		if f.giveUpReason == "" && f.answer != want {
			b.Errorf("%s judged %+v as %s", col.judge, c, f.answer)
			f.giveUpReason = "wrong: " + string(f.answer)
		}
		ns := float64(f.time) / float64(c.operations)
		if f.giveUpReason != "" {
			fmt.Print(" | ", benchCell(col.perOperation, f.giveUpReason, "", ""))
		} else {
			fmt.Print(" | ", benchCell(col.perOperation, f.formatTime(), fmt.Sprintf("%.0f", ns), formatBytes(f.memory)))
		}
		if col.judge == "two" {
			checkerFigures = f
		}
	}
	fmt.Println(" |", goals(c, checkerFigures))
	if checkerFigures.giveUpReason == "" {
		kind := c
		kind.operations = 0
		if b.perOperation[kind] == nil {
			b.kinds = append(b.kinds, kind)
		}
		b.perOperation[kind] = append(b.perOperation[kind], timePerOp{c.operations, float64(checkerFigures.time) / float64(c.operations), checkerFigures.wasDisturbed()})
	}
}

// run runs a judge, unless the judge gave up on a smaller history of the same kind.
func (b *bench) run(judge string, c contention, limit benchLimit) benchFigures {
	kind := c
	kind.operations = 0
	id := benchSpec(judge, kind)
	if at := b.giveUpSizes[id]; at != "" {
		return benchFigures{giveUpReason: "gave up at " + at}
	}
	f, err := runJudgeProcess(judge, c, limit)
	if err != nil {
		b.Error(err)
		f.giveUpReason = "failed"
	}
	if f.giveUpReason != "" {
		b.giveUpSizes[id] = formatCount(c.operations)
	}
	return f
}

// goals describes the performance goals for a history and whether the checker meets them.
func goals(c contention, f benchFigures) string {
	var all []string
	goal := func(text string, met bool) {
		all = append(all, text+map[bool]string{true: ": met", false: ": MISSED"}[met && f.giveUpReason == ""])
	}
	switch {
	case c.operations == 1e6 && c.unknownPercent == 5 && c.violated:
		goal("≤ 0.5 s", f.time <= 500*time.Millisecond)
	case c.operations == 1e7:
		goal("≤ 8 s", f.time <= 8*time.Second)
		goal("≤ 2 GB", f.memory <= 2e9)
	}
	return strings.Join(all, ", ")
}

// printGrowth prints how the cost per operation grows, compared with n log n.
func (b *bench) printGrowth() {
	fmt.Println("\nns per operation of the checker by size, and the growth from the first size to the last: measured, and for n log n")
	for _, kind := range b.kinds {
		all := b.perOperation[kind]
		fmt.Printf("%4d keys %3d %% %-8s", kind.keys, kind.unknownPercent, benchVerdicts[kind.violated])
		for _, s := range all {
			fmt.Printf("  %5s %6.0f%s", formatCount(s.operations), s.ns, map[bool]string{false: " ", true: "*"}[s.busy])
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
	case ns+memory == "": // the judge gave up, and time contains the reason
		return fmt.Sprintf("%-*s", map[bool]int{true: 26, false: 20}[perOperation], time)
	case perOperation:
		return fmt.Sprintf("%10s %6s%9s", time, ns, memory)
	}
	return fmt.Sprintf("%-11s%9s", time, memory)
}

// envOr returns the value of an environment variable, or fallback if it is not set.
func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// envNumbers parses the value that envOr returns as a list of numbers.
func envNumbers(name, fallback string) []int {
	var ns []int
	for _, text := range strings.Split(envOr(name, fallback), ",") {
		digits := strings.NewReplacer("k", "000", "M", "000000").Replace(text)
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			panic(fmt.Sprintf("%s=%s: want numbers such as 0, 5, 10k or 1M, separated by commas", name, os.Getenv(name)))
		}
		ns = append(ns, n)
	}
	return ns
}

var benchVerdicts = map[bool]string{false: "valid", true: "violated"}

// historyKinds returns which histories to measure: valid (false), violated (true) or both.
func historyKinds() []bool {
	requested := strings.Split(envOr("VERDICTS", "valid,violated"), ",")
	var kinds []bool
	for _, violated := range []bool{false, true} {
		if slices.Contains(requested, benchVerdicts[violated]) {
			kinds = append(kinds, violated)
		}
	}
	if len(kinds) != len(requested) {
		panic(fmt.Sprintf("VERDICTS=%s: want valid, violated or both, separated by a comma", os.Getenv("VERDICTS")))
	}
	return kinds
}

// formatCount formats a count in thousands or millions if it is a multiple of these.
func formatCount(n int) string {
	switch {
	case n%1e6 == 0:
		return fmt.Sprintf("%d M", n/1e6)
	case n%1e3 == 0:
		return fmt.Sprintf("%d k", n/1e3)
	}
	return strconv.Itoa(n)
}
