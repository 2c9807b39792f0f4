package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockpick/harness"
)

func (a *app) doctorCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "doctor", Short: "what this machine can run, and how to fix what it can't", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all := map[string][]harness.Capability{}
			for _, name := range backendNames {
				b, err := backend(name)
				if err != nil {
					return err
				}
				all[name] = b.Probe(c.Context())
			}
			if asJSON {
				return printJSON(a.out, all)
			}
			for _, name := range backendNames {
				fmt.Fprintf(a.out, "%s\n", name)
				for _, cap := range all[name] {
					a.printCapability(cap)
				}
			}
			return nil
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print the capabilities as JSON")
	return c
}

func (a *app) printCapability(c harness.Capability) {
	if c.Available {
		fmt.Fprintf(a.out, "    %-14s yes\n", c.Name)
		return
	}
	fmt.Fprintf(a.out, "    %-14s no: %s\n", c.Name, c.Reason)
	if c.Remedy != "" {
		fmt.Fprintf(a.out, "    %-14s     remedy: %s\n", "", c.Remedy)
	}
}
