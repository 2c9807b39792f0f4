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
	"lockpick/harness/real/adapter"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
)

// meetBound is how long an adapter may take to say who it is.
const meetBound = 30 * time.Second

// program is the command of an adapter, as a user wrote it: with the program's path, and with
// files that are there by theirs, for it starts in another directory.
func program(text string) ([]string, error) {
	argv := strings.Fields(text)
	if len(argv) == 0 {
		return nil, usage(errors.New("--adapter names no program"), `as in --adapter "node adapter.js"`)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, usage(fmt.Errorf("adapter %q: %w", argv[0], err), "name a program on PATH, or one by its path")
	}
	argv[0] = path
	for i, word := range argv {
		if _, err := os.Stat(word); err == nil {
			if argv[i], err = filepath.Abs(word); err != nil {
				return nil, err
			}
		}
	}
	return argv, nil
}

// meet starts an adapter for a moment and reads its hello.
func meet(ctx context.Context, argv []string) (hello lockexec.Hello, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, meetBound, fmt.Errorf("it has said no hello for %v", meetBound))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var words strings.Builder
	cmd.Stderr, cmd.WaitDelay = &words, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return hello, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return hello, err
	}
	if err := cmd.Start(); err != nil {
		return hello, err
	}
	a, err := lockexec.Meet(in, out, time.Now)
	cancel()
	cmd.Wait() // it was killed
	if err != nil {
		return hello, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, strings.TrimSpace(words.String()))
	}
	return a.Hello, nil
}

// meet reads the hello of the adapter where it will run: here, or in its image, in which its
// command is as it stands.
func (f *runFlags) meet(ctx context.Context) (hello lockexec.Hello, err error) {
	if f.backend != containers {
		if f.program, err = program(f.adapter); err != nil {
			return hello, err
		}
		if hello, err = meet(ctx, f.program); err != nil {
			return hello, unable(err, "lockpick adapter check tells more")
		}
		return hello, nil
	}
	f.program = strings.Fields(f.adapter)
	line, err := docker.New(docker.Config{Adapter: f.program, AdapterImage: f.image}).Hello(ctx)
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
	all := &cobra.Command{Use: "adapter", Short: "lock libraries of other languages", Long: topic("adapter")}
	all.AddCommand(&cobra.Command{
		Use: "check COMMAND…", Short: "put an adapter to the test, on redis-servers of its own",
		Example:            "  lockpick adapter check node adapter.js",
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("adapter check takes a command, got none"), "as in lockpick adapter check node adapter.js")
			}
			return a.checkAdapter(c.Context(), strings.Join(args, " "))
		},
	}, newAdapterCmd(a))
	return all
}

func (a *app) checkAdapter(ctx context.Context, command string) error {
	argv, err := program(command)
	if err != nil {
		return err
	}
	failed, err := adapter.Try(ctx, os.TempDir(), "redis-server", argv, func(c adapter.Check) {
		mark, text := "ok", c.Saw
		switch {
		case c.Why != nil:
			mark, text = "FAIL", c.Why.Error()
		case c.Skipped != "":
			mark, text = "-", c.Skipped
		}
		fmt.Fprintf(a.out, "%-4s  %-22s %s\n", mark, c.Name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 29)))
	})
	if err != nil {
		return unable(err, "redis-server must be on PATH")
	}
	if failed > 0 {
		fmt.Fprintf(a.out, "\n%s failed; lockpick help adapter has the protocol\n", words.Plural(failed, "check"))
		a.code = outcome.ExitUnexpected
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

// adapt puts the adapter's lock under the scenarios.
func (f *runFlags) adapt(ctx context.Context) error {
	if f.adapter == "" {
		return nil
	}
	if f.lock != "" {
		return usage(errors.New("--adapter and --lock exclude each other"), "leave one out")
	}
	hello, err := f.meet(ctx)
	if err != nil {
		return err
	}
	kinds.All = adapted(hello)
	f.grain = time.Duration(hello.Grain) * time.Millisecond
	f.lock = lockexec.Name
	return nil
}
