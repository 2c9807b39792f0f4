// Command lockpick finds out when a distributed lock stops being a lock.
//
// It is the composition root: flags, progress and exit codes live here, one verb
// a file, and nothing else does.
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
	if len(os.Args) > 1 && os.Args[1] == vdso.GateVerb { // here, for it must keep the main goroutine
		fmt.Fprintln(os.Stderr, "error:", vdso.Gate(os.Args[2:]))
		os.Exit(outcome.ExitBackend)
	}
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "__") { // their parent sees that they died, and how
		if code, over := asInit(); over {
			os.Exit(code)
		}
		// Go's runtime ends a program that has no memory left, overflows its stack or is sent
		// SIGQUIT with status 2, which is undecided here. So it aborts instead, which is none
		// of our codes: a parent that supervises would have to pass on all signals, and die
		// with its child and its child with it.
		debug.SetTraceback("crash")
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main with its world as arguments. It returns the exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	catch := interrupts
	if isPart(args) {
		catch = endsPart
	}
	ctx, end, stop := catch()
	defer stop()
	github := os.Getenv("GITHUB_ACTIONS") == "true"
	result := &output{w: out, github: github, screen: screenOf(out), over: ctx.Done(), lost: func() { end(errUnread) }}
	a := &app{in: in, out: result, errs: &output{w: errs, github: github, screen: screenOf(errs), over: ctx.Done()}}
	root := a.root()
	root.SetArgs(args)
	verb := func(ctx context.Context) error {
		if err := unknown(root, args); err != nil {
			return err
		}
		return root.ExecuteContext(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- guarded(verb, ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if a.tidy.Load() {
			err = <-ended
		}
	}
	if context.Cause(ctx) == errInterrupted {
		return outcome.ExitInterrupt
	}
	switch lost := result.failed(); {
	case lost == nil:
	case errors.Is(lost, syscall.EPIPE): // as behind "| head": there is nobody to complain to
		err, a.code = nil, outcome.Worse(a.code, outcome.ExitBackend)
	default:
		err = unable(fmt.Errorf("print the result: %w", lost), "see that standard output can be written")
	}
	if err != nil {
		a.complain(err)
	}
	return outcome.Worse(a.code, codeOf(err))
}

// guarded makes a panic in a verb an error: a bug in lockpick, with its stack.
func guarded(verb func(context.Context) error, ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &failure{err: fmt.Errorf("panic: %v\n%s", r, debug.Stack()), code: outcome.ExitBug, hint: "this is a bug in lockpick"}
		}
	}()
	return explained(verb(ctx))
}

// app is what the verbs share.
type app struct {
	in        io.Reader
	out, errs io.Writer
	code      int
	tidy      atomic.Bool // see tidies
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockpick",
		Short: "find out when a distributed lock stops being a lock",
		Long: `lockpick drives a distributed lock with concurrent clients while it injects the
faults that distributed systems really have, records what happened, judges the
record, and explains the verdict.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs, // see unknown
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.SetFlagErrorFunc(flagError)
	var colour string
	root.PersistentFlags().StringVar(&colour, "color", "auto", "colours: auto, always or never; auto obeys NO_COLOR")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.setColour(colour) }
	root.SetHelpCommand(helpCmd())
	root.Version = buildInfo()
	root.SetVersionTemplate("{{.Version}}")
	root.InitDefaultVersionFlag()
	root.AddCommand(listCmd(a.out), showCmd(a.out), runCmd(a), mergeCmd(a), scoreCmd(a), huntCmd(a), shrinkCmd(a), exhaustCmd(a), envelopeCmd(a), adapterCmd(a), checkCmd(a), replayCmd(a), explainCmd(a), reportCmd(a), serveCmd(a), gcCmd(a),
		doctorCmd(a), versionCmd(a.out))
	root.AddCommand(hiddenCmds(a.in, a.out)...)
	for _, t := range topics {
		root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: topic(t.name)})
	}
	completion(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	arrange(root)
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Short = "print a script that completes commands and flags in your shell"
		}
	}
	return root
}

// groups are the groups in which help lists the commands.
var groups = []struct {
	title    string
	commands []string
}{
	{"Run", []string{"run", "scorecard", "replay", "merge"}},
	{"Inspect", []string{"list", "show", "check", "explain", "report", "serve"}},
	{"Explore", []string{"fuzz", "minimize", "envelope", "model-check"}},
	{"Maintain", []string{"adapter", "doctor", "gc", "completion", "help", "version"}},
}

// formerNames are what commands were called in earlier releases. They still work, but help does
// not list them.
var formerNames = map[string]string{"model-check": "exhaust", "fuzz": "hunt", "scorecard": "score", "minimize": "shrink"}

// arrange puts the commands into their groups and gives them their former names.
func arrange(root *cobra.Command) {
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

// unknown refuses words behind what only has help, the program itself, a group of commands or a
// topic: cobra would print that help, as if it were asked for, and does so for --help.
func unknown(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || c != root && c.Runnable() {
		return nil
	}
	c.InitDefaultHelpFlag()
	if c.ParseFlags(rest) != nil || c.Flags().NArg() == 0 { // cobra says what is wrong
		return nil
	}
	word := c.Flags().Arg(0)
	if strings.HasPrefix(word, cobra.ShellCompRequestCmd) { // a shell, which cobra answers
		return nil
	}
	path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), root.Name())+" ", " ")
	if instead := removed[path+word]; instead != "" {
		return usage(fmt.Errorf("the command %q was removed", path+word), instead)
	}
	return usage(fmt.Errorf("unknown command %q", path+word), strings.TrimSpace("see lockpick help "+path)+meant(word, commands(c)))
}

func helpCmd() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND|TOPIC]", Short: "show help about a command or a topic",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				if instead := removed[strings.Join(args, " ")]; instead != "" {
					return usage(fmt.Errorf("the command %q was removed", strings.Join(args, " ")), instead)
				}
				return usage(fmt.Errorf("no command or topic %q", strings.Join(args, " ")), "lockpick help lists them"+meant(strings.Join(args, " "), commands(c.Root())))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		}}
}

// failure is an error with the exit code that it calls for and what to do about it.
type failure struct {
	err  error
	code int
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usage(err error, hint string) error {
	return &failure{err: err, code: outcome.ExitUsage, hint: hint}
}

func unable(err error, hint string) error {
	return &failure{err: err, code: outcome.ExitBackend, hint: hint}
}

func codeOf(err error) int {
	var f *failure
	switch {
	case err == nil:
		return outcome.ExitOK
	case errors.As(err, &f):
		return f.code
	}
	return outcome.ExitUsage
}

func (a *app) complain(err error) {
	const mostErrorText = 16 << 10
	var s *scenario.Error
	// An error may have lines of its own, and those of texts that it quotes: none of them is to
	// pass for a line of ours.
	text := strings.ReplaceAll(strings.TrimRight(err.Error(), "\n"), "\n", "\n    ")
	text = longWord.ReplaceAllString(text, "$1…$2")
	if codeOf(err) != outcome.ExitBug { // a stack is printed whole
		text = display.Clip(text, mostErrorText)
	}
	if errors.As(err, &s) { // which is drawn
		text = err.Error()
	}
	fmt.Fprintf(a.errs, "%s %s\n", display.Paint(a.errs, display.Bad, "error:"), text)
	if f, ok := errors.AsType[*failure](err); ok && f.hint != "" && !errors.As(err, &s) {
		fmt.Fprintf(a.errs, "%s %s\n", display.Paint(a.errs, display.Good, "hint:"), display.OneLine(f.hint))
	}
}

// longWord matches a word too long to repeat in an error, with the parts that are repeated.
var longWord = regexp.MustCompile(`(\S{200})\S{400,}(\S{100})`)

// released is the version that a release was built as; the linker sets it.
var released string

// version is the release, the module's version, or the commit it was built from.
func version() string {
	if released != "" {
		return released
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

// buildInfo is the version with what it was built by and for, as version and --version print it.
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

// removed lists the commands and flags that earlier releases had, with what to use instead: a
// command by its name, a flag by its command's name and its own. Using one is an error of usage
// (exit 64) whose hint says so.
var removed = map[string]string{
	"compare":                 "make a scorecard of each and open both",
	"envelope --pairs":        "run envelope for one fault at a time; for two, put both in a scenario file and change one, as in lockpick run mine.yaml --set plan.2.fault.by=40ms",
	"model-check --large":     "without flags the known scopes run within seconds; give a larger one with --nodes, --attempts, --extends and --crashes",
	"run --nodes":             "leave it out: lockpick makes its own nodes",
	"run --stop-at-violation": "leave it out: each run is judged to its end, and the report shows every key's life",
	"run --to":                "copy the shard's folder with your site's tool, as in aws s3 cp --recursive or rclone; see lockpick help shards",
	"run --watch":             "your editor's save hook or a tool such as entr runs lockpick again",
}
