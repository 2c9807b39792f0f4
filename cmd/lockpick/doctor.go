package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/internal/files"
	"lockpick/nemesis"
	"lockpick/reports"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

func doctorCmd(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "doctor", Short: "show what this machine can run, and how to fix what it can't", Args: noArgs,
		Long: `Say what each backend can do on this machine, and why not, where it can't. What a
scenario needs, list -v shows; what the faults are, help faults.

The backend docker uses the engine at DOCKER_HOST, or at the usual socket if that is not
set. It reads no contexts of the docker command: for the current one, export
DOCKER_HOST=$(docker context inspect -f '{{.Endpoints.docker.Host}}').`,
		RunE: func(c *cobra.Command, _ []string) error {
			a.tidies() // a probe tries what a run has
			all, remarks := map[string][]harness.Capability{}, map[string]string{}
			for _, name := range backendNames {
				b, err := backend(name, docker.Config{})
				if err != nil {
					return err
				}
				all[name] = probe(c.Context(), b).all()
				if m, ok := b.(remarker); ok && all[name][0].Available {
					remarks[name] = m.Remark(c.Context())
				}
			}
			if asJSON {
				return printJSON(a.out, all)
			}
			for _, name := range backendNames {
				fmt.Fprintf(a.out, "%s\n", name)
				diagnose(a.out, all[name])
				if remarks[name] != "" {
					finding(a.out, "", "note: "+remarks[name])
				}
			}
			return nil
		}}
	jsonFlag(c, &asJSON, "the capabilities")
	return c
}

// diagnose prints a backend's capabilities by what they are about. What can't run
// at all needs no more than one reason.
func diagnose(out io.Writer, all []harness.Capability) {
	if run := all[0]; !run.Available {
		finding(out, "run", "no: "+run.Reason)
		remedy(out, run)
		return
	}
	finding(out, "run", "yes")
	for _, g := range grouped(all[1:]) {
		var able []string
		var not []harness.Capability
		for _, c := range g.all {
			if c.Available {
				able = append(able, g.short(c))
			} else {
				not = append(not, c)
			}
		}
		heading := g.name
		if len(able) > 0 {
			finding(out, heading, "yes: "+strings.Join(able, ", "))
			heading = ""
		}
		// What is missing for one reason stands in one line.
		for len(not) > 0 {
			first := not[0]
			var names []string
			not = slices.DeleteFunc(not, func(c harness.Capability) bool {
				alike := c.Reason == first.Reason && c.Remedy == first.Remedy
				if alike {
					names = append(names, g.short(c))
				}
				return alike
			})
			finding(out, heading, "no:  "+strings.Join(names, ", ")+": "+first.Reason)
			heading = ""
			remedy(out, first)
		}
	}
}

func finding(out io.Writer, heading, text string) { fmt.Fprintf(out, "    %-9s %s\n", heading, text) }

func remedy(out io.Writer, c harness.Capability) {
	if c.Remedy != "" {
		finding(out, "", "     remedy: "+c.Remedy)
	}
}

// group is capabilities about one sort of thing.
type group struct {
	name   string
	suffix string
	all    []harness.Capability
}

// short is a capability's name as far as its group doesn't say it.
func (g group) short(c harness.Capability) string { return strings.TrimSuffix(c.Name, g.suffix) }

func grouped(all []harness.Capability) []group {
	groups := []group{{name: "topology"}}
	for _, on := range []nemesis.Target{nemesis.Client, nemesis.Node, nemesis.Link, nemesis.Message} {
		groups = append(groups, group{name: string(on) + "s", suffix: "-" + string(on)})
	}
	for _, c := range all {
		i := slices.IndexFunc(groups, func(g group) bool { return g.suffix != "" && strings.HasSuffix(c.Name, g.suffix) })
		groups[max(i, 0)].all = append(groups[max(i, 0)].all, c)
	}
	return groups
}

// ci is what a run tells of its outcomes to those who run it unattended. It holds no
// more of a sweep than it will write.
type ci struct {
	junitFile   string
	summaryFile string // $GITHUB_STEP_SUMMARY
	annotate    bool
	tally       outcome.Tally
	junit       []byte            // the JUnit file
	kept        map[string]string // where runs lie that were made again to be kept, by their commands
}

// newCI reads the environment. The file is made before anything is run, for a run whose
// result can't be written is better not begun.
func newCI(junitFile string) (*ci, error) {
	c := &ci{junitFile: junitFile, summaryFile: os.Getenv("GITHUB_STEP_SUMMARY"), annotate: os.Getenv("GITHUB_ACTIONS") == "true"}
	if junitFile == "" {
		return c, nil
	}
	f, err := files.Output(junitFile, 0)
	if err != nil {
		return nil, usage(fmt.Errorf("write junit file: %w", err), "name a file that can be written with --junit")
	}
	return c, f.Close()
}

// render makes the JUnit file's text, as long as the store has all the runs that it quotes.
func (c *ci) render() error {
	var b bytes.Buffer
	err := suites.WriteJUnit(&b, &c.tally, sequenceOf)
	c.junit = b.Bytes()
	return err
}

func (c *ci) writeJUnit(w io.Writer) error {
	if _, err := w.Write(c.junit); err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	return nil
}

// finish writes all. Annotations are lines that GitHub's runner reads from either
// stream, so they go where no result does.
func (c *ci) finish(to io.Writer) error {
	var errs []error
	if c.junitFile != "" {
		errs = append(errs, written(c.junitFile, os.O_TRUNC, c.writeJUnit))
	}
	if c.summaryFile != "" {
		errs = append(errs, written(c.summaryFile, os.O_APPEND, func(w io.Writer) error { return suites.GitHubSummary(w, &c.tally, c.drawing) }))
	}
	if c.annotate {
		if o, ok := to.(*output); ok {
			to = obeyedOutput{o}
		}
		errs = append(errs, suites.GitHubAnnotations(to, &c.tally))
	}
	if err := errors.Join(errs...); err != nil {
		return unable(err, "make room, or name another file; the runs are in the store")
	}
	return nil
}

func written(path string, how int, write func(io.Writer) error) error {
	f, err := files.Output(path, how)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return errors.Join(write(f), f.Close())
}

// sequenceOf is the diagram that a run left, as text.
func sequenceOf(o outcome.Outcome) string { return kept(o, reports.SequenceFile) }

// drawing is the diagram that a run left, or the same run when it was made again to be kept: as
// Mermaid where there is that.
func (c *ci) drawing(o outcome.Outcome) string {
	if o.Dir == "" {
		o.Dir = c.kept[o.Command]
	}
	return cmp.Or(kept(o, "sequence.mmd"), sequenceOf(o))
}

// mostDrawn is larger than any diagram.
const mostDrawn = 64 << 20

func kept(o outcome.Outcome, name string) string {
	if o.Dir == "" {
		return ""
	}
	text, err := files.ReadIn(o.Dir, name, mostDrawn)
	if err != nil { // it is a picture, and the words are there
		return ""
	}
	return string(text)
}
