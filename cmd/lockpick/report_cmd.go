package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockpick/scenarios/suite"
)

func (a *app) reportCmd() *cobra.Command {
	return &cobra.Command{Use: "report [DIR|FILE]", Short: "draw the reports of a run or a suite again; the latest suite, if none is named",
		Long: `Draw reports again, and print the path of the page to look at.

Of a run directory, or a bare history.jsonl: it is judged again, and all its reports
are written anew; those of a bare FILE go to the folder FILE.report. The exit code
says whether they could be drawn; lockpick check judges.

Of a suite's directory, or of the latest suite: suite.html and suite.md, from the
outcomes that stand in the suite's outcome.json. Nothing is judged anew.`,
		Example: `  lockpick report store/gc-pause-after-acquire/latest
  lockpick report history.jsonl
  lockpick report
  lockpick report store/suites/latest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("%s takes at most one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return a.reportSuite("")
			case isRun(args[0]):
				return a.reportRun(args[0])
			}
			return a.reportSuite(args[0])
		}}
}

// isRun reports whether a path is a run's rather than a suite's: a file, or a
// directory with a history or a manifest.
func isRun(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return err == nil
	}
	return suite.IsRun(path)
}
