package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"lockpick/internal/files"
	"lockpick/reports/suites"
)

func exportCmd(a *app) *cobra.Command {
	var output, maxSize string
	c := &cobra.Command{Use: "export [DIR] -o FILE", Short: "write a report as one HTML file that can be sent to others",
		Long: `Write the report of a run, a suite, scorecards or an assessment as one HTML file that needs
no other file. Without DIR, export the latest suite.

The file contains the page of DIR and the pages of the runs that it links to, up to
--max-size. Of a suite, it contains only runs with a violation or an unexpected result, the
unexpected ones first. The page and a message say what was left out. A run's page that does
not exist yet is rendered and stored in the run's directory.`,
		Example: `  lockpick export -o suite.html                                        the latest suite
  lockpick export store/gc-pause-after-acquire/latest -o run.html
  lockpick export store/scores/latest -o scorecards.html --max-size 200MB`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(fmt.Errorf("%s takes at most one argument, got %d", c.CommandPath(), len(args)), "see "+c.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			maxBytes, err := units.FromHumanSize(maxSize)
			switch {
			case output == "":
				return usageError(errors.New("no file to write"), "name one with -o, as in -o report.html")
			case err != nil || maxBytes <= 0:
				return usageError(fmt.Errorf("invalid --max-size %q", maxSize), "as in 50MB")
			}
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			return export(a, dir, output, maxBytes)
		}}
	c.Flags().StringVarP(&output, "output", "o", "", "the HTML file to write")
	c.Flags().StringVar(&maxSize, "max-size", "50MB", "leave out pages of runs that would make the file larger than this")
	return c
}

func export(a *app, dir, output string, maxBytes int64) error {
	store := defaultStore()
	hint := "name the directory of a run or a suite, as in " + filepath.Join(store, suites.Folder, "latest")
	if dir == "" {
		dirs := suites.SuiteDirs(store)
		if len(dirs) == 0 {
			return usageError(fmt.Errorf("no suite in %s", store), "run several scenarios first, name a directory, or set LOCKPICK_STORE")
		}
		dir = dirs[0]
	}
	if err := rejectRunFolder(dir); err != nil {
		return err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usageError(fmt.Errorf("%s is a file", dir), hint)
	}
	if err := checkOutputFile(output); err != nil {
		return err
	}
	x, err := suites.NewExport(dir, maxBytes, renderStored)
	if _, isTooLarge := errors.AsType[*suites.TooLargeError](err); isTooLarge {
		return usageError(fmt.Errorf("export %s: %w", dir, err), "raise the limit with --max-size")
	}
	if err != nil {
		return usageError(fmt.Errorf("export %s: %w", dir, err), hint)
	}
	if err := files.WriteIn(filepath.Dir(output), filepath.Base(output), x.HTML); err != nil {
		return writeError(fmt.Errorf("write %s: %w", output, err), "name a file in a writable folder with -o")
	}
	if note := x.LeftOut(); note != "" {
		fmt.Fprintf(a.errOut, "note: %s\n", note)
	}
	_, err = fmt.Fprintf(a.out, "%s (%s)\n", output, units.HumanSize(float64(len(x.HTML))))
	return err
}
