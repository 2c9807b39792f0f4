package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

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
	c.Flags().StringVar(&store, "store", defaultStore(), "folder that keeps the runs (LOCKPICK_STORE)")
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
