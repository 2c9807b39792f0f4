package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/scenario"
	"lockpick/scenarios"
)

func listCmd(out io.Writer) *cobra.Command {
	var verbose, asJSON bool
	var tags []string
	c := &cobra.Command{Use: "list", Short: "list scenarios: what each one shows and what it expects", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON && verbose {
				return usage(errors.New("--json prints everything about a scenario, so --verbose has no effect"), "leave one of them out")
			}
			all, err := choice{tags: tags}.scenarios()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, resolved(all))
			}
			able := map[string]abilities{}
			for _, name := range backendNames {
				b, err := backend(name, docker.Config{})
				if err != nil {
					return err
				}
				if verbose {
					able[name] = probe(c.Context(), b)
				}
			}
			for _, s := range all {
				if s.Variant == "" {
					fmt.Fprintf(out, "%s  %s\n", s.Name, painted(out, faint, "["+strings.Join(s.Tags, ", ")+"]"))
					fmt.Fprintln(out, "    "+within(width(out)-1, 4, 4, s.Claim))
				}
				fmt.Fprintln(out, "    "+hung("/"+s.Variant, longestVariant(all), expectations(s.Scenario), width(out)))
				if verbose {
					listPlan(out, s.Scenario)
					listBackends(out, s.Scenario, able)
				}
			}
			return nil
		}}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "faults, and where it can run on this machine")
	c.Flags().BoolVar(&asJSON, "json", false, "print the resolved scenarios as JSON")
	c.Flags().StringSliceVar(&tags, "tag", nil, "only scenarios with this tag")
	return c
}

// longestVariant is how wide the column of variants is.
func longestVariant(all []pick) int {
	n := 0
	for _, p := range all {
		n = max(n, len(p.Variant)+1)
	}
	return n
}

// hung is a word in a column, and a text beside it whose lines stay in theirs.
func hung(word string, column int, text string, width int) string {
	beside := 4 + column + 1
	return fmt.Sprintf("%-*s %s", column, word, within(width-1, beside, beside, text))
}

func expectations(s scenario.Scenario) string {
	var out []string
	for _, p := range known().Properties {
		if e, ok := s.Expect[p]; ok && e.Follows == "" {
			w := p + " " + e.Want
			if e.Cause != "" {
				w += " (" + e.Cause + ")"
			}
			out = append(out, w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Numbers)) {
		out = append(out, name+" "+s.Numbers[name].String())
	}
	return strings.Join(out, ", ")
}

// listPlan prints what goes wrong in a scenario.
func listPlan(out io.Writer, s scenario.Scenario) {
	for i, st := range s.Plan {
		on := strings.Join(st.Fault.Targets, " ")
		if st.When.Message != nil && on == "" {
			on = st.When.Message.Link
		}
		if details := st.Fault.Details(); details != "" {
			on += " (" + details + ")"
		}
		fmt.Fprintf(out, "        step %d: %s: %s %s\n", i+1, st.When, st.Fault.Kind, on)
	}
	if s.Random == nil {
		return
	}
	var words []string
	for _, c := range s.Random.Choices() {
		words = append(words, c.Word)
	}
	bounds := "without bounds"
	if s.Random.Within != "" {
		bounds = "within the " + s.Random.Within
	}
	fmt.Fprintf(out, "        drawn by the seed, %s: %s\n", bounds, strings.Join(words, ", "))
}

// listBackends prints where a scenario can run here, and what is missing elsewhere.
func listBackends(out io.Writer, s scenario.Scenario, able map[string]abilities) {
	var on, not []string
	for _, name := range backendNames {
		lacks := able[name].missing(s)
		switch {
		case len(lacks) == 0:
			on = append(on, name)
		case lacks[0].Name == harness.CanRun: // then nothing else is there either
			not = append(not, name+": "+lacks[0].Reason)
		default:
			not = append(not, name+": "+reasons(lacks))
		}
	}
	if len(on) > 0 {
		fmt.Fprintf(out, "        runs on %s\n", strings.Join(on, ", "))
	}
	for _, why := range not {
		fmt.Fprintf(out, "        not on %s\n", why)
	}
}

func showCmd(out io.Writer) *cobra.Command {
	var schema bool
	c := &cobra.Command{Use: "show NAME", Short: "print a scenario file, to read or copy",
		Args: func(c *cobra.Command, args []string) error {
			if schema {
				return noArgs(c, args)
			}
			return oneArg(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := out.Write(scenario.Schema(known()))
				return err
			}
			name, variant, _ := strings.Cut(args[0], "/")
			if !slices.Contains(scenarios.Names(), name) {
				return usage(fmt.Errorf("no scenario %q", name), "see lockpick list"+meant(name, scenarios.Names()))
			}
			text, err := scenarios.Read(name)
			if err != nil {
				return err
			}
			all, err := scenario.Parse(name+".yaml", text, known())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(s scenario.Scenario) bool { return s.Variant == variant }) {
				return usage(fmt.Errorf("%s has no variant %q", name, variant), "lockpick show "+name+" prints them all")
			}
			_, err = out.Write(text)
			return err
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of scenario files")
	return c
}
