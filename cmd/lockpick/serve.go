package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"lockpick/reports/suites"
)

func serveCmd(a *app) *cobra.Command {
	var store string
	var port uint16
	c := &cobra.Command{Use: "serve", Short: "serve the store to a browser on this machine", Args: noArgs,
		Long: `Serve the runs of the store and their reports on 127.0.0.1 only. The server shows
nothing outside the store and changes no results. It draws a missing report when the
report's page is opened. The server runs until it is interrupted (exit code 130).`,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), store, port) }}
	addStoreFlag(c, &store, "the runs")
	c.Flags().Uint16Var(&port, "port", 8046, "port to listen on; 0 for any free port")
	return c
}

func (a *app) serve(ctx context.Context, store string, port uint16) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return usageError(fmt.Errorf("listen: %w", err), "choose another port with --port, or any free one with --port 0")
	}
	defer l.Close()
	s, err := suites.NewServer(store, l.Addr(), drawStored)
	if err != nil {
		return usageError(fmt.Errorf("open store: %w", err), "run something first, or name another folder with --store")
	}
	a.waitForCleanup()
	fmt.Fprintf(a.out, "http://%s/\n", l.Addr())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		shutdownCtx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(shutdownCtx) != nil {
			s.Close()
		}
		err = <-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return backendError(fmt.Errorf("serve: %w", err), "restart it")
}

func gcCmd(a *app) *cobra.Command {
	var store, age, size string
	var keep int
	var dryRun bool
	c := &cobra.Command{Use: "gc --keep N|--older-than AGE|--max-size SIZE", Short: "remove old runs and suites from the store", Args: noArgs,
		Long: `Remove runs and suites that exceed a limit, the oldest first. A run
in a suite stays as long as the suite. A run that may be in progress stays.

With LOCKPICK_KEEP=N in the environment, each run ends with "gc --keep N".`,
		Example: `  lockpick gc --keep 10             keep the newest ten suites, and ten runs of each scenario
  lockpick gc --older-than 30d      remove runs and suites older than thirty days
  lockpick gc --max-size 2GB        remove until at most 2 GB are left
  lockpick gc --keep 10 --dry-run   print what would be removed`,
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := parseLimit(c, keep, age, size)
			if err != nil {
				return err
			}
			a.waitForCleanup()
			return gc(a.out, store, b, dryRun)
		}}
	fs := c.Flags()
	addStoreFlag(c, &store, "the runs")
	fs.IntVar(&keep, "keep", 0, "keep the newest N suites, and the newest N runs of each scenario")
	fs.StringVar(&age, "older-than", "", "remove runs and suites older than this, as in 30d or 12h")
	fs.StringVar(&size, "max-size", "", "remove the oldest until the store is no larger than this, as in 500MB or 2GB")
	fs.BoolVar(&dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	return c
}

// parseLimit returns the limit that exactly one of the three flags sets.
func parseLimit(c *cobra.Command, keep int, age, size string) (b suites.Retention, err error) {
	numGiven := 0
	for _, name := range []string{"keep", "older-than", "max-size"} {
		if c.Flags().Changed(name) {
			numGiven++
		}
	}
	switch {
	case numGiven != 1:
		return b, usageError(fmt.Errorf("got %d limits, want one", numGiven), "use --keep N, --older-than AGE or --max-size SIZE")
	case age != "":
		d, err := parseAge(age)
		if err != nil || d < 0 {
			return b, usageError(fmt.Errorf("invalid --older-than %q", age), "as in 30d or 12h")
		}
		b.MinStart = time.Now().Add(-d)
	case c.Flags().Changed("keep"):
		if b.MaxCount = keep; keep < 1 {
			return b, usageError(fmt.Errorf("--keep %d is not positive", keep), "use 1 or more")
		}
	default:
		if b.MaxBytes, err = units.FromHumanSize(size); err != nil || b.MaxBytes < 0 {
			return b, usageError(fmt.Errorf("invalid --max-size %q", size), "as in 500MB or 2GB")
		}
	}
	return b, nil
}

// parseAge parses a duration in Go's format or in days, as in 30d.
func parseAge(text string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		d, err := strconv.ParseUint(n, 10, 16)
		return time.Duration(d) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func gc(out io.Writer, store string, b suites.Retention, dryRun bool) error {
	excess, err := suites.FindExcess(store, b)
	if err != nil {
		return usageError(err, "name a store with --store")
	}
	verb := "removed"
	if dryRun {
		verb = "would remove"
	} else {
		err := suites.Remove(store, excess)
		if err == nil {
			err = suites.Index(store)
		}
		if err != nil {
			return backendError(err, "check the permissions of the store")
		}
	}
	total := int64(0)
	for _, e := range excess {
		fmt.Fprintf(out, "%s %s (%s)\n", verb, filepath.Join(store, filepath.FromSlash(e.Dir)), units.HumanSize(float64(e.Bytes)))
		total += e.Bytes
	}
	_, err = fmt.Fprintf(out, "%s %d suites and runs, %s\n", verb, len(excess), units.HumanSize(float64(total)))
	return err
}

// keepVariable is the environment variable with the number of suites, and of runs of each scenario, to
// keep after each run.
const keepVariable = "LOCKPICK_KEEP"

// keepFromEnv returns the value of LOCKPICK_KEEP, or 0, which means all, if it is not set.
func keepFromEnv() (int, error) {
	text := os.Getenv(keepVariable)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, usageError(errors.New("invalid "+keepVariable+"="+text), "use 1 or more, or unset it")
	}
	return n, nil
}
