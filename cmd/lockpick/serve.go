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
		Long: `List the runs of the store and open their reports, on 127.0.0.1 only. Nothing
outside of the store is shown, and nothing can be changed; a report that has not been
drawn yet is, when it is opened. It goes on until it is interrupted, which is exit
code 130.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), store, port) }}
	storeFlag(c, &store, "the runs")
	c.Flags().Uint16Var(&port, "port", 8046, "port to listen on; 0: one that is free")
	return c
}

func (a *app) serve(ctx context.Context, store string, port uint16) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return usage(fmt.Errorf("listen: %w", err), "choose another port with --port, or a free one with --port 0")
	}
	defer l.Close()
	s, err := suites.Server(store, l.Addr(), drawStored)
	if err != nil {
		return usage(fmt.Errorf("open store: %w", err), "run something first, or name another folder with --store")
	}
	a.tidies()
	fmt.Fprintf(a.out, "http://%s/\n", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		// Who is reading now may finish.
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(soon) != nil {
			s.Close()
		}
		err = <-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return unable(fmt.Errorf("serve: %w", err), "start it again")
}

func gcCmd(a *app) *cobra.Command {
	var store, age, size string
	var keep int
	var dry bool
	c := &cobra.Command{Use: "gc --keep N|--older-than AGE|--max-size SIZE", Short: "remove old runs and suites from the store", Args: noArgs,
		Long: `Remove what the store keeps beyond a bound, the oldest first. A run that a suite
refers to stays as long as the suite; a run that may still go on stays.

LOCKPICK_KEEP=N in the environment is "gc --keep N" after each run.`,
		Example: `  lockpick gc --keep 10             the newest ten suites, and ten runs of each scenario
  lockpick gc --older-than 30d      what began more than thirty days ago
  lockpick gc --max-size 2GB        until at most 2 GB are left
  lockpick gc --keep 10 --dry-run   what that would remove`,
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := bound(c, keep, age, size)
			if err != nil {
				return err
			}
			a.tidies()
			return gc(a.out, store, b, dry)
		}}
	fs := c.Flags()
	storeFlag(c, &store, "the runs")
	fs.IntVar(&keep, "keep", 0, "keep the newest N suites, and the newest N runs of each scenario")
	fs.StringVar(&age, "older-than", "", "remove what began longer ago than this, as in 30d or 12h")
	fs.StringVar(&size, "max-size", "", "remove the oldest until the rest has at most this size, as in 500MB or 2GB")
	fs.BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	return c
}

// bound reads what is to stay; exactly one of the three flags says it.
func bound(c *cobra.Command, keep int, age, size string) (b suites.Bound, err error) {
	given := 0
	for _, name := range []string{"keep", "older-than", "max-size"} {
		if c.Flags().Changed(name) {
			given++
		}
	}
	switch {
	case given != 1:
		return b, usage(fmt.Errorf("%d bounds are given, want one", given), "--keep N, --older-than AGE or --max-size SIZE")
	case age != "":
		d, err := days(age)
		if err != nil || d < 0 {
			return b, usage(fmt.Errorf("--older-than %q is no age", age), "as in 30d or 12h")
		}
		b.Since = time.Now().Add(-d)
	case c.Flags().Changed("keep"):
		if b.Newest = keep; keep < 1 {
			return b, usage(fmt.Errorf("--keep %d keeps nothing", keep), "a number from 1 on")
		}
	default:
		if b.Bytes, err = units.FromHumanSize(size); err != nil || b.Bytes < 0 {
			return b, usage(fmt.Errorf("--max-size %q is no size", size), "as in 500MB or 2GB")
		}
	}
	return b, nil
}

// days reads a duration, which may be of whole days.
func days(text string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		d, err := strconv.ParseUint(n, 10, 16)
		return time.Duration(d) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func gc(out io.Writer, store string, b suites.Bound, dry bool) error {
	beyond, err := suites.Beyond(store, b)
	if err != nil {
		return usage(err, "name a store with --store")
	}
	done := "removed"
	if dry {
		done = "would remove"
	} else {
		err := suites.Remove(store, beyond)
		if err == nil {
			err = suites.Index(store)
		}
		if err != nil {
			return unable(err, "see who may write there")
		}
	}
	sum := int64(0)
	for _, e := range beyond {
		fmt.Fprintf(out, "%s %s (%s)\n", done, filepath.Join(store, filepath.FromSlash(e.Dir)), units.HumanSize(float64(e.Bytes)))
		sum += e.Bytes
	}
	_, err = fmt.Fprintf(out, "%s %d suites and runs, %s\n", done, len(beyond), units.HumanSize(float64(sum)))
	return err
}

// keepEnv is how many suites, and runs of each scenario, stay after each run.
const keepEnv = "LOCKPICK_KEEP"

// keeps reads LOCKPICK_KEEP; 0 is all.
func keeps() (int, error) {
	text := os.Getenv(keepEnv)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, usage(errors.New(keepEnv+"="+text+" is no number of runs to keep"), "a number from 1 on, or unset it")
	}
	return n, nil
}
