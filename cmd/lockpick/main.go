// Command lockpick finds out when a distributed lock stops being a lock.
//
// This package contains only flags, progress output and exit codes, one file per command. It is the
// composition root.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == vdso.GateVerb { // must run on the main goroutine
		fmt.Fprintln(os.Stderr, "error:", vdso.Gate(os.Args[2:]))
		os.Exit(outcome.ExitBackend)
	}
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "__") { // hidden commands need neither: their parent sees how they died
		if code, ran := runAsInit(); ran {
			os.Exit(code)
		}
		// If a program runs out of memory, overflows its stack or receives SIGQUIT, the Go
		// runtime exits with status 2, which would mean inconclusive. Aborting can't be
		// mistaken for one of lockpick's exit codes. A supervising parent process would work
		// too, but it would have to forward all signals, and parent and child would have to
		// die together.
		debug.SetTraceback("crash")
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without global state. It returns the exit code.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	newContext := newInterruptContext
	if isPart(args) {
		newContext = newPartContext
	}
	ctx, cancel, stop := newContext()
	defer stop()
	github := os.Getenv("GITHUB_ACTIONS") == "true"
	result := &output{w: out, github: github, screen: newScreen(out), done: ctx.Done(), onBrokenPipe: func() { cancel(errOutputClosed) }}
	a := &app{in: in, out: result, errOut: &output{w: errOut, github: github, screen: newScreen(errOut), done: ctx.Done()}}
	root := a.root()
	root.SetArgs(args)
	execute := func(ctx context.Context) error {
		if err := rejectUnknownCommand(root, args); err != nil {
			return err
		}
		return root.ExecuteContext(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- catchPanic(execute, ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		if a.needsCleanup.Load() {
			err = <-done
		}
	}
	if context.Cause(ctx) == errInterrupted {
		return outcome.ExitInterrupt
	}
	switch writeErr := result.firstError(); {
	case writeErr == nil:
	case errors.Is(writeErr, syscall.EPIPE): // as in "| head", where nobody would read an error message
		err, a.code = nil, outcome.WorseCode(a.code, outcome.ExitBackend)
	default:
		err = backendError(fmt.Errorf("print the result: %w", writeErr), "make sure that standard output can be written")
	}
	if err != nil {
		a.printError(err)
	}
	return outcome.WorseCode(a.code, exitCode(err))
}

// catchPanic runs a command. It turns a panic into an error with the stack and the exit code for
// bugs.
func catchPanic(execute func(context.Context) error, ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &failure{err: fmt.Errorf("panic: %v\n%s", r, debug.Stack()), code: outcome.ExitBug, hint: "this is a bug in lockpick"}
		}
	}()
	return withHint(execute(ctx))
}

// app holds what all commands share.
type app struct {
	in           io.Reader
	out, errOut  io.Writer
	code         int
	needsCleanup atomic.Bool // see waitForCleanup
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockpick",
		Short: "find out when a distributed lock stops being a lock",
		Long: `lockpick runs concurrent clients against a distributed lock while it injects faults
that occur in distributed systems. It records a history, checks it, and explains
the verdict.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs, // see rejectUnknownCommand
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	root.SetFlagErrorFunc(flagError)
	var color string
	root.PersistentFlags().StringVar(&color, "color", "auto", "colored output: auto, always or never; auto respects NO_COLOR")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.setColor(color) }
	root.SetHelpCommand(helpCmd())
	root.Version = buildInfo()
	root.SetVersionTemplate("{{.Version}}")
	root.InitDefaultVersionFlag()
	root.AddCommand(listCmd(a.out), showCmd(a.out), runCmd(a), mergeCmd(a), scorecardCmd(a), fuzzCmd(a), minimizeCmd(a), modelCheckCmd(a), assessCmd(a), adapterCmd(a), checkCmd(a), replayCmd(a), explainCmd(a), reportCmd(a), exportCmd(a), serveCmd(a), gcCmd(a),
		doctorCmd(a), versionCmd(a.out))
	root.AddCommand(hiddenCmds(a.in, a.out)...)
	for _, t := range topics {
		root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: topicText(t.name)})
	}
	addCompletion(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	groupCommands(root)
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "print a completion script for your shell"
		}
	}
	return root
}

// groups lists the groups of commands in the help.
var groups = []struct {
	title    string
	commands []string
}{
	{"Run", []string{"run", "assess", "scorecard", "replay", "merge"}},
	{"Inspect", []string{"list", "show", "check", "explain", "report", "export", "serve"}},
	{"Explore", []string{"fuzz", "minimize", "model-check"}},
	{"Maintain", []string{"adapter", "doctor", "gc", "completion", "help", "version"}},
}

// formerNames maps commands to their names in earlier releases, which still work but do not appear
// in the help.
var formerNames = map[string]string{"model-check": "exhaust", "fuzz": "hunt", "scorecard": "score", "minimize": "shrink"}

// groupCommands assigns commands to groups and makes their former names work.
func groupCommands(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(g.commands, c.Name()) {
				c.GroupID = g.title
			}
		}
	}
	for _, c := range root.Commands() {
		if former := formerNames[c.Name()]; former != "" {
			c.Aliases = []string{former}
		}
	}
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if gt (len .Aliases) 0}}", "{{if false}}", 1))
}

// rejectUnknownCommand rejects an unknown word after the program name, a command with subcommands or
// a topic. Cobra would ignore the word and print help.
func rejectUnknownCommand(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || c != root && c.Runnable() {
		return nil
	}
	c.InitDefaultHelpFlag()
	if c.ParseFlags(rest) != nil || c.Flags().NArg() == 0 { // cobra reports the error
		return nil
	}
	word := c.Flags().Arg(0)
	if strings.HasPrefix(word, cobra.ShellCompRequestCmd) { // a shell's completion request, which cobra answers
		return nil
	}
	path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), root.Name())+" ", " ")
	if replacement := replacements[path+word]; replacement != "" {
		return usageError(fmt.Errorf("the command %q was removed", path+word), replacement)
	}
	return usageError(fmt.Errorf("unknown command %q", path+word), strings.TrimSpace("see lockpick help "+path)+suggestion(word, commandNames(c)))
}

func helpCmd() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND|TOPIC]", Short: "show help about a command or a topic",
		RunE: func(c *cobra.Command, args []string) error {
			command, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				if replacement := replacements[strings.Join(args, " ")]; replacement != "" {
					return usageError(fmt.Errorf("the command %q was removed", strings.Join(args, " ")), replacement)
				}
				return usageError(fmt.Errorf("no command or topic %q", strings.Join(args, " ")), "see lockpick help"+suggestion(strings.Join(args, " "), commandNames(c.Root())))
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		}}
}

// failure is an error with an exit code and a hint on how to fix it.
type failure struct {
	err  error
	code int
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usageError(err error, hint string) error {
	return &failure{err: err, code: outcome.ExitUsage, hint: hint}
}

func backendError(err error, hint string) error {
	return &failure{err: err, code: outcome.ExitBackend, hint: hint}
}

func exitCode(err error) int {
	var f *failure
	switch {
	case err == nil:
		return outcome.ExitOK
	case errors.As(err, &f):
		return f.code
	}
	return outcome.ExitUsage
}

func (a *app) printError(err error) {
	const maxErrorText = 16 << 10
	var s *scenario.Error
	// Indent further lines: an error may quote foreign text, whose lines must not look like
	// lockpick's own.
	text := strings.ReplaceAll(strings.TrimRight(err.Error(), "\n"), "\n", "\n    ")
	text = longWord.ReplaceAllString(text, "$1…$2")
	if exitCode(err) != outcome.ExitBug { // print stacks in full
		text = display.TruncateBytes(text, maxErrorText)
	}
	if errors.As(err, &s) { // its text shows the position in the file
		text = err.Error()
	}
	fmt.Fprintf(a.errOut, "%s %s\n", display.Paint(a.errOut, display.BadText, "error:"), text)
	if f, ok := errors.AsType[*failure](err); ok && f.hint != "" && !errors.As(err, &s) {
		fmt.Fprintf(a.errOut, "%s %s\n", display.Paint(a.errOut, display.GoodText, "hint:"), display.OneLine(f.hint))
	}
}

// longWord matches a word that is too long for an error message, and captures the two parts to keep.
var longWord = regexp.MustCompile(`(\S{200})\S{400,}(\S{100})`)

// releaseVersion is set by the linker in release builds.
var releaseVersion string

// version returns the release version, the module version, or the commit.
func version() string {
	if releaseVersion != "" {
		return releaseVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

// buildInfo returns the output of version and --version.
func buildInfo() string {
	return fmt.Sprintf("lockpick %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCmd(out io.Writer) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print version and build information", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out, buildInfo())
			return err
		}}
}

// replacements maps removed commands and flags (as "COMMAND --FLAG") to what to use instead. Using
// one is a usage error (exit 64) with that hint.
var replacements = map[string]string{
	"assess --dimension":      "use --hazard; see lockpick assess --help for the names",
	"compare":                 "make a scorecard of each and open both",
	"envelope":                "use lockpick assess, which measures the same bounds with your settings and says what to change",
	"model-check --large":     "without flags, the known scopes run within seconds; use --nodes, --attempts, --extends and --crashes for a larger one",
	"run --stop-at-violation": "leave it out: every run is checked to its end, and the report shows the whole life of every key",
	"run --to":                "copy the shard's folder with another tool, as in aws s3 cp --recursive or rclone; see lockpick help shards",
	"run --watch":             "use your editor's save hook or a tool such as entr to rerun lockpick",
}
