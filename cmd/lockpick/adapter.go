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

// findProgram refuses an adapter whose program isn't there.
func findProgram(argv []string) error {
	if len(argv) == 0 {
		return usage(errors.New("--adapter names no program"), `as in --adapter "node adapter.js"`)
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return usage(fmt.Errorf("adapter %q: %w", argv[0], err), "name a program on PATH, or one by its path")
	}
	return nil
}

// meet starts an adapter for a moment and reads its hello. It returns the command by which
// to start it from then on: a shim's is that of the program by which it replaces itself.
func meet(ctx context.Context, argv []string) (hello lockexec.Hello, command []string, err error) {
	late := fmt.Errorf("it has said no hello within %v", lockexec.StartWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, lockexec.StartWithin, late)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var words proc.Output
	cmd.Stderr, cmd.WaitDelay = &words, time.Second
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
	a, err := lockexec.Meet(in, out, time.Now)
	if err == nil {
		command = real.Replaced(cmd.Process.Pid, argv[0])
	} else if cause := context.Cause(ctx); cause != nil { // its stdout has ended because it was killed
		err = cause
	}
	cancel()
	cmd.Wait() // it was killed
	if err != nil {
		return hello, nil, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, words.String())
	}
	if command == nil {
		command = argv
	}
	return a.Hello, command, nil
}

// meetIn reads the hello of an adapter in its image, in which its command is as it stands.
func meetIn(ctx context.Context, image string, argv []string) (hello lockexec.Hello, err error) {
	line, err := docker.New(docker.Config{Adapter: argv, AdapterImage: image}).Hello(ctx)
	if lack, ok := errors.AsType[*docker.Lack](err); ok {
		return hello, unable(lack.Reason, lack.Remedy)
	}
	if err != nil {
		return hello, unable(err, "name the adapter by its path in the image; see lockpick help adapter")
	}
	a, err := lockexec.Meet(io.Discard, strings.NewReader(line), time.Now)
	if err != nil {
		return hello, unable(err, "see lockpick help adapter")
	}
	return a.Hello, nil
}

func adapterCmd(a *app) *cobra.Command {
	all := &cobra.Command{Use: "adapter", Short: "test lock libraries written in other languages", Long: topic("adapter")}
	all.AddCommand(&cobra.Command{
		Use: "check COMMAND…", Short: "take an adapter through the protocol once, on servers of its own",
		Example:            "  lockpick adapter check node adapter.js",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usage(errors.New("adapter check takes a command, got none"), "as in lockpick adapter check node adapter.js")
			case args[0] == "--help" || args[0] == "-h": // those behind the command are its own
				return c.Help()
			case len(args) == 1:
				args = strings.Fields(args[0])
			}
			return a.checkAdapter(c.Context(), args)
		},
	}, newAdapterCmd(a))
	return all
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
		return unable(err, "see that redis-server is on PATH and that the machine is not too busy")
	case !passed:
		fmt.Fprintln(a.out, "\nlockpick help adapter has the protocol.")
		a.code = outcome.ExitUnexpected
	default:
		fmt.Fprintf(a.out, "\nThe adapter speaks the protocol. Whether its library keeps a lock is for runs to find out:\n\n  lockpick run baseline/ --adapter %q\n", strings.Join(argv, " "))
	}
	return nil
}

// adapted is the table of kinds with that of an adapter, which is there only where one was
// named: a scenario file names none.
func adapted(hello lockexec.Hello) map[string]lock.Kind {
	all := maps.Clone(kinds.All)
	all[lockexec.Name] = hello.Kind()
	return all
}

// onServers selects a backend with real servers for an adapter, where none was named: the
// simulation has no processes. It says which.
func (f *runFlags) onServers(c *cobra.Command, errs io.Writer) error {
	switch {
	case f.adapter == "":
	case !c.Flags().Changed("backend"):
		f.backend = "process"
		if f.image != "" {
			f.backend = containers
		}
		fmt.Fprintf(errs, "an adapter needs real servers: running with --backend %s\n", f.backend)
	case f.backend == simulation:
		return usage(errors.New("an adapter needs real servers, and --backend sim has none"), "leave out --backend, or take --backend process or docker")
	}
	return nil
}

// adapt selects the lock of the adapter that is named, if one is, and returns the program to start,
// where it will run: here, or in its image.
func adapt(ctx context.Context, s *campaign.Selection, image string) (program []string, err error) {
	if s.Adapter == "" {
		return nil, nil
	}
	if s.Lock != "" {
		return nil, usage(errors.New("--adapter and --lock exclude each other"), "leave one out")
	}
	var hello lockexec.Hello
	program = strings.Fields(s.Adapter)
	if s.Backend == containers {
		hello, err = meetIn(ctx, image, program)
	} else if err = findProgram(program); err == nil {
		if hello, program, err = meet(ctx, program); err != nil {
			err = unable(err, "see lockpick help adapter")
		}
	}
	if err != nil {
		return nil, err
	}
	kinds.All = adapted(hello)
	s.Lock, s.TTLUnit = lockexec.Name, time.Duration(hello.Grain)*time.Millisecond
	return program, nil
}

// newAdapterCmd writes an adapter to start from, which passes the check as it is.
func newAdapterCmd(a *app) *cobra.Command {
	var lang string
	langs := strings.Join(lockexec.Languages(), ", ")
	c := &cobra.Command{
		Use: "new --lang LANGUAGE [DIR]", Short: "write an adapter to start from: " + langs,
		Example: "  lockpick adapter new --lang python",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, ok := lockexec.StarterIn(lang)
			if !ok {
				return usage(fmt.Errorf("there is no adapter in %q to start from", lang), "say --lang and one of "+langs+"; any other language will do as well: lockpick help adapter")
			}
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if err := s.Write(dir); err != nil {
				return usage(err, "name a directory without these files, as in lockpick adapter new --lang "+lang+" my-adapter")
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
	c.Flags().StringVar(&lang, "lang", "", "the language: "+langs)
	return c
}
