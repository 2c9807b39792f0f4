package locktest_test

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/harness/locktest"
)

// wrappings are three ways in which a test may choose a library's settings: its own, those of the
// scenario, and those of Env.ForLibrary.
var wrappings = []string{"own", "settings", "library"}

// driverOptions returns the options of go-redis: those of production, or without retries, which come
// after random delays, so that two runs with the same seed would differ.
func driverOptions(env lock.Env, n lock.Node, wrapping string) *redis.Options {
	o := &redis.Options{Addr: n.Addr, Dialer: env.Dial, ContextTimeoutEnabled: true}
	if wrapping != "own" {
		o.MaxRetries = -1
	}
	return o
}

var (
	exampleFlag   = flag.String("example", "", "run the examples with these options: default, production, three-nodes or one-try")
	scenariosFlag = flag.String("scenarios", "", "run the examples with these scenarios only")
)

// exampleOptions returns the options for TestRedsync and TestRedislock, which fail because these
// libraries violate properties. To run them:
//
//	go test ./harness/locktest -run TestRedsync -example=production
func exampleOptions(t *testing.T) (o locktest.Options) {
	o.Patience = 2 * time.Minute // a busy host is slow
	switch *exampleFlag {
	case "":
		t.Skip("run by TestExamplesReportViolations")
	case "default":
	case "production":
		o.TTL, o.Tries = 8*time.Second, 32 // those of the wrapping that has its own
	case "three-nodes":
		o.TTL, o.Nodes = 8*time.Second, 3
	case "one-try":
		o.Tries = 1
	default:
		t.Fatalf("unknown example %q", *exampleFlag)
	}
	if *scenariosFlag != "" {
		o.Scenarios = strings.Split(*scenariosFlag, ",")
	}
	return o
}

var (
	startPattern = regexp.MustCompile(`^=== (?:RUN|PAUSE|CONT|NAME) +(\S+)`)
	endPattern   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)
)

// runExample runs an example in a process of its own. It returns the results and the output of its
// subtests, by name.
func runExample(t *testing.T, args ...string) (results, texts map[string]string) {
	t.Helper()
	out, _ := exec.Command(os.Args[0], append(args, "-test.v")...).CombinedOutput()
	results, texts = map[string]string{}, map[string]string{}
	current := ""
	for line := range strings.Lines(string(out)) {
		if m := startPattern.FindStringSubmatch(line); m != nil {
			current = m[1]
		} else if m := endPattern.FindStringSubmatch(line); m != nil {
			results[m[2]] = m[1]
		} else {
			texts[current] += line
		}
	}
	if len(results) < 5 {
		t.Fatalf("too few subtests:\n%s", out)
	}
	return results, texts
}

// violationPattern matches the line of a violated requirement.
var violationPattern = regexp.MustCompile(`(?m)^ +[a-z-]+ violated \([a-z-]+( at n\d)?\), expected holds`)

// confusingPattern matches what a failure must not say: that the run shows nothing, or that the
// scenario or the machine is at fault.
var confusingPattern = regexp.MustCompile(`inconclusive|vacuous|tried to acquire a lock|not available|usage|hint:`)

// checkExample runs all examples and checks that each failure shows a violation, and nothing that
// distracts from it. If a lock gave up, an inconclusive run says so. If its TTL is not the expected
// one, each result says so. It returns how many subtests passed, failed and were skipped, and how many
// results mention a TTL.
func checkExample(t *testing.T, example, scenarios string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	results, texts := runExample(t, "-test.run=^(TestRedsync|TestRedislock)$", "-example="+example, "-scenarios="+scenarios)
	for name, result := range results {
		if strings.Count(name, "/") < 3 { // not a scenario's variant
			continue
		}
		counts[result]++
		text := strings.ReplaceAll(texts[name], "inconclusive in the comparison run", "")
		switch {
		case result == "FAIL" && (!violationPattern.MatchString(text) || !strings.Contains(text, "run again: ") || confusingPattern.MatchString(text)):
			t.Errorf("%s failed:\n%s", name, text)
		case result == "SKIP" && strings.TrimSpace(text) == "":
			t.Errorf("%s was skipped without a reason", name)
		case strings.Contains(text, "gave up") && !regexp.MustCompile(`Acquire gave up after \d+ tr(y|ies)\n +\d+×  \S`).MatchString(text):
			t.Errorf("%s doesn't say after how many tries the lock gave up, and why:\n%s", name, text)
		}
		if strings.Contains(text, "needs Options.TTL") {
			counts["TTL"]++
			if !strings.Contains(name, "/own/") {
				t.Errorf("%s has the scenario's TTL, but not according to the result:\n%s", name, text)
			}
		}
	}
	t.Logf("%s: %v", example, counts)
	return counts
}

// Examples fail only with violations, and skip runs in which the library gave up.
func TestExamplesReportViolations(t *testing.T) {
	for _, example := range []string{"production", "one-try"} {
		t.Run(example, func(t *testing.T) {
			t.Parallel()
			counts := checkExample(t, example, "baseline/,delayed-release-kills-retry,no-answer/,counter-after-acquire/,foreign-release,late-extension/")
			if counts["PASS"] == 0 || counts["FAIL"] == 0 || counts["SKIP"] == 0 || (counts["TTL"] == 0) != (example == "production") {
				t.Errorf("results: %v", counts)
			}
		})
	}
}
