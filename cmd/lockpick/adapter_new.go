package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/harness/lock/exec"
)

// newAdapterCmd writes an adapter to start from, which passes the check as it is.
func newAdapterCmd(a *app) *cobra.Command {
	var lang string
	langs := strings.Join(exec.Languages(), ", ")
	c := &cobra.Command{
		Use: "new --lang LANGUAGE [DIR]", Short: "write an adapter to start from: " + langs,
		Example: "  lockpick adapter new --lang python",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, ok := exec.StarterIn(lang)
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
