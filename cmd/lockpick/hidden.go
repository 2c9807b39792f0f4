package main

import (
	"github.com/spf13/cobra"

	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/sim"
	"lockpick/scenarios/sweep"
)

// Verbs that lockpick calls itself by.
const (
	workerVerb = "__worker"
	clientVerb = "__client"
)

// workerCmd does simulated runs in a process of its own.
func (a *app) workerCmd() *cobra.Command {
	return &cobra.Command{Use: workerVerb, Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		b := sim.New(kinds.All)
		return sweep.Worker(a.in, a.out, map[string]harness.Backend{b.Name(): b})
	}}
}

// clientCmd is one contender on a real backend.
func (a *app) clientCmd() *cobra.Command {
	return &cobra.Command{Use: clientVerb, Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return process.ClientMain(a.in, a.out, kinds.All)
	}}
}
