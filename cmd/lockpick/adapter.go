package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness/lock"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// findProgram checks that the adapter's program is on PATH or exists.
func findProgram(argv []string) error {
	if len(argv) == 0 {
		return usageError(errors.New("--adapter is empty"), `as in --adapter "node adapter.js"`)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return usageError(fmt.Errorf("adapter %q: %w", argv[0], err), "name a program on PATH, or give its path")
	}
	return nil
}

// readHello starts an adapter, reads its hello, and kills it. It returns the command to start the
// adapter with later: argv, or the program that argv executes if argv is a shim.
func readHello(ctx context.Context, argv []string) (hello lockexec.Hello, command []string, err error) {
	timeout := fmt.Errorf("no hello within %v", lockexec.StartWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, lockexec.StartWithin, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr proc.Output
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return hello, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return hello, nil, err
	}
	if err := cmd.Start(); err != nil {
		return hello, nil, err
	}
	a, err := lockexec.Connect(in, out, time.Now)
	if err == nil {
		command = real.ReplacedCommand(cmd.Process.Pid, argv[0])
	} else if cause := context.Cause(ctx); cause != nil { // killed, so its stdout ended
		err = cause
	}
	cancel()
	cmd.Wait() // always fails: the adapter was killed
	if err != nil {
		return hello, nil, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, stderr.String())
	}
	if command == nil {
		command = argv
	}
	return a.Hello, command, nil
}

// readHelloInImage reads the hello of an adapter in a container image, where argv runs unchanged.
func readHelloInImage(ctx context.Context, image string, argv []string) (hello lockexec.Hello, err error) {
	line, err := docker.New(docker.Config{Adapter: argv, AdapterImage: image}).Hello(ctx)
	if unsupported, ok := errors.AsType[*docker.MissingError](err); ok {
		return hello, backendError(unsupported.Reason, unsupported.Remedy)
	}
	if err != nil {
		return hello, backendError(err, "name the adapter by its path in the image; see lockpick help adapter")
	}
	a, err := lockexec.Connect(io.Discard, strings.NewReader(line), time.Now)
	if err != nil {
		return hello, backendError(err, "see lockpick help adapter")
	}
	return a.Hello, nil
}

func adapterCmd(a *app) *cobra.Command {
	parent := &cobra.Command{Use: "adapter", Short: "test lock libraries written in other languages", Long: topicText("adapter")}
	parent.AddCommand(&cobra.Command{
		Use: "check COMMAND…", Short: "run an adapter through the protocol once, on its own servers",
		Example:            "  lockpick adapter check node adapter.js",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError(errors.New("adapter check takes a command, got none"), "as in lockpick adapter check node adapter.js")
			case args[0] == "--help" || args[0] == "-h": // flags after the first argument belong to the adapter's command
				return c.Help()
			case len(args) == 1:
				args = strings.Fields(args[0])
			}
			return a.checkAdapter(c.Context(), args)
		},
	}, newAdapterCmd(a))
	return parent
}

func (a *app) checkAdapter(ctx context.Context, argv []string) error {
	if err := findProgram(argv); err != nil {
		return err
	}
	passed, err := real.SmokeTest(ctx, os.TempDir(), "redis-server", argv, func(s real.SmokeStep) {
		mark := "ok"
		if s.Failed {
			mark = "failed"
		}
		fmt.Fprintf(a.out, "%-6s  %-7s  expected %s; got %s\n", mark, s.Name, s.Expected, strings.ReplaceAll(s.Got, "\n", "\n"+strings.Repeat(" ", 17)))
	})
	switch {
	case err != nil:
		return backendError(err, "make sure that redis-server is on PATH and that the machine is not overloaded")
	case !passed:
		fmt.Fprintln(a.out, "\nlockpick help adapter describes the protocol.")
		a.code = outcome.ExitUnexpected
	default:
		fmt.Fprintf(a.out, "\nThe adapter speaks the protocol. To test its library, run scenarios:\n\n  lockpick run baseline/ --adapter %q\n", strings.Join(argv, " "))
	}
	return nil
}

// kindsWithAdapter returns a copy of the table of lock kinds to which it has added the adapter's
// lock. The global table lacks this kind, because scenario files must not name an adapter.
func kindsWithAdapter(hello lockexec.Hello) map[string]lock.Kind {
	all := maps.Clone(kinds.All)
	all[lockexec.Name] = hello.Kind()
	return all
}

// requireServers selects a backend with real servers, and prints its name, if the user gave
// --adapter without --backend. The simulation can't run adapters, because it has no processes.
func (f *runFlags) requireServers(c *cobra.Command, errOut io.Writer) error {
	switch {
	case f.adapter == "":
	case !c.Flags().Changed("backend"):
		f.backend = "process"
		if f.adapterImage != "" {
			f.backend = containers
		}
		fmt.Fprintf(errOut, "an adapter needs real servers: running with --backend %s\n", f.backend)
	case f.backend == simulation:
		return usageError(errors.New("an adapter needs real servers, and --backend sim has none"), "leave out --backend, or use --backend process or docker")
	}
	return nil
}

// selectAdapter makes the adapter's lock the lock under test if the user gave --adapter. It returns
// the command that starts the adapter on this machine or, in containers, in the image.
func selectAdapter(ctx context.Context, s *campaign.Selection, image string) (program []string, err error) {
	if s.Adapter == "" {
		return nil, nil
	}
	if s.Lock != "" {
		return nil, usageError(errors.New("--adapter and --lock exclude each other"), "leave one of them out")
	}
	var hello lockexec.Hello
	program = strings.Fields(s.Adapter)
	if s.Backend == containers {
		hello, err = readHelloInImage(ctx, image, program)
	} else if err = findProgram(program); err == nil {
		if hello, program, err = readHello(ctx, program); err != nil {
			err = backendError(err, "see lockpick help adapter")
		}
	}
	if err != nil {
		return nil, err
	}
	kinds.All = kindsWithAdapter(hello)
	s.Lock, s.TTLUnit = lockexec.Name, time.Duration(hello.TTLUnit)*time.Millisecond
	return program, nil
}

func newAdapterCmd(a *app) *cobra.Command {
	var lang string
	langs := strings.Join(lockexec.Languages(), ", ")
	c := &cobra.Command{
		Use: "new --lang LANGUAGE [DIR]", Short: "write a starting point for an adapter: " + langs,
		Example: "  lockpick adapter new --lang python",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, ok := lockexec.FindStarter(lang)
			if !ok {
				return usageError(fmt.Errorf("no starting point for --lang %q", lang), "use one of "+langs+"; for any other language see lockpick help adapter")
			}
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if err := s.Write(dir); err != nil {
				return usageError(err, "name a directory without these files, as in lockpick adapter new --lang "+lang+" my-adapter")
			}
			fmt.Fprintf(a.out, "written: %s\n\n", strings.Join(s.Files(), ", "))
			if dir = filepath.Clean(dir); dir != "." {
				fmt.Fprintln(a.out, "  cd", dir)
			}
			if s.Build != "" {
				fmt.Fprintln(a.out, "  "+s.Build)
			}
			fmt.Fprintln(a.out, "  lockpick adapter check", s.Run)
			fmt.Fprintf(a.out, "  lockpick run baseline/ --backend process --adapter %q\n", s.Run)
			return nil
		},
	}
	c.Flags().StringVar(&lang, "lang", "", "language: "+langs)
	return c
}
