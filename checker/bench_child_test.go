//go:build bench && linux

package checker

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// benchChild is the environment variable that makes the test binary run one judge on one history.
// The judge needs a separate process so that it can be measured and killed.
const benchChild = "LOCKPICK_BENCH_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(benchChild); spec != "" {
		if err := runJudge(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// benchJudges maps the columns of the table to functions that prepare a history and return the
// function to time.
var benchJudges = map[string]func(*history.History) func() verdict.Outcome{
	"two": func(h *history.History) func() verdict.Outcome {
		return func() verdict.Outcome {
			return commonOutcome(Check(h, verdict.MutualExclusion, verdict.LeaseLinearizable))
		}
	},
	"all": func(h *history.History) func() verdict.Outcome {
		return func() verdict.Outcome { return commonOutcome(Check(h)) }
	},
	"mutex": peerJudge("mutex"),
	"lease": peerJudge("lease"),
}

func peerJudge(model string) func(*history.History) func() verdict.Outcome {
	return func(h *history.History) func() verdict.Outcome {
		keys := peerOps(h)
		return func() verdict.Outcome { return checkWithPeer(peers[model], keys) }
	}
}

// commonOutcome returns the outcome on which the two properties agree. If they do not agree, it
// returns a description of the problem.
func commonOutcome(v verdict.Verdict) verdict.Outcome {
	m, l := v.Result(verdict.MutualExclusion).Outcome.Answer(), v.Result(verdict.LeaseLinearizable).Outcome.Answer()
	switch {
	case v.Assumption != "" || v.Disagreement != "":
		return verdict.Outcome(strings.ReplaceAll(v.Assumption+v.Disagreement, " ", "_"))
	case m != l:
		return m + "/" + l
	}
	return m
}

func benchSpec(judge string, c contention) string {
	return fmt.Sprint(judge, " ", c.operations, " ", c.keys, " ", c.unknownPercent, " ", c.violated, " ", c.seed)
}

// The judge runs benchTimes times, or as often as possible within benchTimeLimit.
const (
	benchTimes     = 15
	benchTimeLimit = 2 * time.Second
)

// runJudge generates a history and judges it, repeatedly if that is quick. Before each run it
// prints a line with the current memory. After each run it prints a line with the wall-clock time
// and the CPU time in nanoseconds, the increase in peak memory in bytes, and the answer.
func runJudge(spec string) error {
	var judge string
	var c contention
	if _, err := fmt.Sscan(spec, &judge, &c.operations, &c.keys, &c.unknownPercent, &c.violated, &c.seed); err != nil {
		return fmt.Errorf("read %s: %w", spec, err)
	}
	question := benchJudges[judge](c.history())
	var all time.Duration
	for i := 0; i < benchTimes && all < benchTimeLimit; i++ {
		debug.FreeOSMemory() // frees the history, too, if the judge no longer needs it
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			return fmt.Errorf("reset the peak memory: %w", err)
		}
		startMemory, err := peakResidentMemory()
		if err != nil {
			return err
		}
		fmt.Println("begin", startMemory)
		start, startCPU := time.Now(), cpuTime()
		answer := question()
		elapsed, cpuUsed := time.Since(start), cpuTime()-startCPU
		all += elapsed
		peak, err := peakResidentMemory()
		if err != nil {
			return err
		}
		fmt.Println("end", elapsed.Nanoseconds(), cpuUsed.Nanoseconds(), peak-startMemory, answer)
	}
	return nil
}

// cpuTime returns the CPU time that the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakResidentMemory returns the process's peak resident memory in bytes since the peak was last
// reset.
func peakResidentMemory() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the peak memory: %w", err)
	}
	return n * 1024, nil
}
