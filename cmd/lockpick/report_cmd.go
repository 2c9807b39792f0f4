package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) reportCmd() *cobra.Command {
	return &cobra.Command{Use: "report [SUITE-DIR]", Short: "draw the safety report of a suite again; the latest, if none is named",
		Long: `Draw suite.html and suite.md again, from the outcomes that stand in the suite's
outcome.json: nothing is judged anew. To judge a run again is lockpick check.`,
		Example: `  lockpick report
  lockpick report store/suites/latest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("%s takes at most one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.reportSuite("")
			}
			return a.reportSuite(args[0])
		}}
}
