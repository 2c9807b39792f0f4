package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/harness"
	"lockpick/scenarios"
)

func (a *app) listCmd() *cobra.Command {
	var verbose, asJSON bool
	var tags []string
	c := &cobra.Command{Use: "list", Short: "scenarios, what each one shows, what it expects", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := choice{tags: tags}.scenarios()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, resolved(all))
			}
			for _, s := range all {
				if s.Variant == "" {
					fmt.Fprintf(a.out, "%s\n    %s\n", s.Name, s.Claim)
				}
				fmt.Fprintf(a.out, "    %-22s %s\n", "/"+s.Variant, expectations(s.Scenario))
				if verbose {
					a.listPlan(s.Scenario)
				}
			}
			return nil
		}}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "faults and what a backend needs for them")
	c.Flags().BoolVar(&asJSON, "json", false, "print the resolved scenarios as JSON")
	c.Flags().StringSliceVar(&tags, "tag", nil, "only scenarios with this tag")
	return c
}

func expectations(s harness.Scenario) string {
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
	return strings.Join(out, ", ")
}

func (a *app) listPlan(s harness.Scenario) {
	for i, st := range s.Plan {
		on := strings.Join(st.Fault.Targets, " ")
		if st.When.Message != nil && on == "" {
			on = st.When.Message.Link
		}
		fmt.Fprintf(a.out, "        step %d: %s: %s %s\n", i+1, st.When, st.Fault.Kind, on)
	}
	if needs := s.Needs(); len(needs) > 0 {
		fmt.Fprintf(a.out, "        needs %s\n", strings.Join(needs, ", "))
	}
}

func (a *app) showCmd() *cobra.Command {
	var schema bool
	c := &cobra.Command{Use: "show NAME", Short: "the scenario file, to read or copy",
		Args: func(c *cobra.Command, args []string) error {
			if schema {
				return noArgs(c, args)
			}
			return oneArg(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := a.out.Write(harness.Schema(known()))
				return err
			}
			name, variant, _ := strings.Cut(args[0], "/")
			if !slices.Contains(scenarios.Names(), name) {
				return usage(fmt.Errorf("no scenario %q", name), "see lockpick list"+near(name))
			}
			text, err := scenarios.Read(name)
			if err != nil {
				return err
			}
			all, err := harness.Parse(name+".yaml", text, known())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(s harness.Scenario) bool { return s.Variant == variant }) {
				return usage(fmt.Errorf("%s has no variant %q", name, variant), "lockpick show "+name+" prints them all")
			}
			_, err = a.out.Write(text)
			return err
		}}
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of scenario files")
	return c
}
