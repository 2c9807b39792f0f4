//go:build bench && linux

package checker

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockpick/checker/verdict"
)

// benchLimit limits the resources that a judge may use for one history. Generating the history does
// not count.
type benchLimit struct {
	time   time.Duration
	memory int64 // bytes in addition to those used at the start
	cores  int   // 0 means all
}

// benchFigures contains the medians of the measurements.
type benchFigures struct {
	time         time.Duration
	cpuTime      time.Duration
	memory       int64
	answer       verdict.Outcome
	giveUpReason string // why there is no answer, or ""
}

// runJudgeProcess judges a history in a separate process, and kills the process at its limits.
func runJudgeProcess(judge string, c contention, limit benchLimit) (benchFigures, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchChild+"="+benchSpec(judge, c))
	if limit.cores > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("GOMAXPROCS=", limit.cores))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // the process must not outlive an interrupted test
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return benchFigures{}, err
	}
	if err := cmd.Start(); err != nil {
		return benchFigures{}, fmt.Errorf("start %s: %w", judge, err)
	}
	lines := make(chan []string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- strings.Fields(s.Text())
		}
	}()
	f := watchJudge(cmd.Process, lines, limit)
	if err := cmd.Wait(); err != nil && f.giveUpReason == "" {
		return f, fmt.Errorf("%s on %+v: %w: %.2000s", judge, c, err, stderr.String())
	}
	return f, nil
}

// watchJudge reads the judge's output until the process ends or is killed.
func watchJudge(p *os.Process, lines <-chan []string, limit benchLimit) benchFigures {
	var f benchFigures
	var elapsedTimes, cpuTimes, memory []int64
	var start time.Time // zero while the process is not judging
	var startMemory int64
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case line, ok := <-lines:
			switch {
			case !ok:
				if len(elapsedTimes) > 0 && f.giveUpReason == "" {
					f.time, f.cpuTime, f.memory = time.Duration(median(elapsedTimes)), time.Duration(median(cpuTimes)), median(memory)
				}
				return f
			case len(line) == 2 && line[0] == "begin":
				start, startMemory = time.Now(), parseNumber(line[1])
			case len(line) == 5 && line[0] == "end":
				start = time.Time{}
				elapsedTimes, cpuTimes = append(elapsedTimes, parseNumber(line[1])), append(cpuTimes, parseNumber(line[2]))
				memory, f.answer = append(memory, parseNumber(line[3])), verdict.Outcome(line[4])
			}
		case <-tick.C:
			switch {
			case start.IsZero() || f.giveUpReason != "":
			case time.Since(start) > limit.time:
				f.giveUpReason = fmt.Sprintf("> %.0f s", limit.time.Seconds())
				p.Kill()
			case residentMemory(p.Pid)-startMemory > limit.memory:
				f.giveUpReason = fmt.Sprintf("> %d GB after %s", limit.memory/1e9, formatDuration(time.Since(start)))
				p.Kill()
			}
		}
	}
}

// residentMemory returns a process's resident memory in bytes, or 0 if the process has ended.
func residentMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	return parseNumber(fields[1]) * int64(os.Getpagesize())
}

func parseNumber(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func median(xs []int64) int64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// wasDisturbed reports whether the machine was busy with something else.
func (f benchFigures) wasDisturbed() bool { return f.cpuTime < f.time*4/5 }

// formatTime formats the time, with an asterisk if the measurement was disturbed.
func (f benchFigures) formatTime() string {
	if f.wasDisturbed() {
		return formatDuration(f.time) + "*"
	}
	return formatDuration(f.time) + " "
}

// formatDuration formats a duration with about three digits.
func formatDuration(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d)/1e6)
}

func formatBytes(bytes int64) string {
	if bytes >= 1e9 {
		return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
