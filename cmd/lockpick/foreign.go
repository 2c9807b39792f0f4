package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/harness/history"
	"lockpick/harness/history/edn"
	"lockpick/harness/scenario"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// Models of locks with handles, by which runs of our own are judged. A history of Jepsen's
// doesn't say whether its lock has leases: where no model is named nothing lapses, so that two
// holders are not excused by what nobody said.
const (
	handle = "handle"
	lease  = "lease"
)

// models is what such a history's lock can be taken for.
func models() []string { return append(mutex.Models(), handle, lease) }

// foreign is how a history of Jepsen's is judged.
type foreign struct {
	model string
	ttl   time.Duration // of a lease; 0: nobody knows
}

func (f *foreign) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.model, "model", "", "what the lock of FILE.edn is taken for: "+strings.Join(models(), ", ")+"\n(default: handle, and lease with --ttl)")
	c.Flags().DurationVar(&f.ttl, "ttl", 0, "how long a lease of FILE.edn lasts from the call of its acquire")
}

// meant sees that what was asked for has a meaning for the file. What isn't there, or is a
// directory, is no history of Jepsen's, as for suite.Open.
func (f *foreign) meant(c *cobra.Command, path string) (theirs bool, err error) {
	info, err := os.Stat(path)
	theirs = err == nil && !info.IsDir() && filepath.Ext(path) == ".edn"
	asked := c.Flags().Changed("ttl")
	switch {
	case c.Flags().Changed("model"):
	case asked:
		f.model = lease
	default:
		f.model = handle
	}
	switch {
	case !slices.Contains(models(), f.model):
		return theirs, usage(fmt.Errorf("there is no model %q", f.model), "one of "+strings.Join(models(), ", ")+"; see lockpick check --help")
	case asked && f.ttl <= 0:
		return theirs, usage(fmt.Errorf("--ttl %v is no time for a lease to last", f.ttl), "give what the lock was told, such as --ttl 10s")
	case asked && f.model != lease:
		return theirs, usage(fmt.Errorf("--ttl with --model %s, which knows no leases", f.model), "leave out one of them, or take --model lease")
	case !theirs && (err == nil || path == "") && (asked || c.Flags().Changed("model")):
		return theirs, usage(errors.New("--model and --ttl are for a history.edn of Jepsen's"), "leave them out: a record of ours says how long its leases last")
	}
	return theirs, nil
}

// judge judges a history by the model.
func (f *foreign) judge(path string) (v checker.Verdict, js []outcome.Judgement, notes []string, err error) {
	if slices.Contains(mutex.Models(), f.model) {
		ops, notes, err := edn.OperationsFile(path)
		if err != nil {
			return v, nil, nil, err
		}
		v = mutex.Check(f.model, ops)
		holds := map[string]scenario.Expectation{f.model: {Want: string(checker.Holds), Implied: true}}
		return v, campaign.Judge(holds, v), notes, nil
	}
	h, notes, err := edn.ReadFile(path, f.lapse())
	if err != nil {
		return v, nil, nil, err
	}
	v = f.verdict(h)
	v.Model = f.model
	return v, campaign.JudgeStored(campaign.Stored{Dir: path, History: h, Notes: notes}, v), notes, nil
}

// verdict is that of a history, one of ours or one of Jepsen's whose lock has handles.
func (f *foreign) verdict(h *history.History) checker.Verdict {
	return checker.Check(h, f.properties()...)
}

// open reads what is to be drawn: a run of ours, or a history of Jepsen's by a model in which
// somebody believes that he holds.
func (f *foreign) open(a *app, c *cobra.Command, path string) (campaign.Stored, error) {
	isTheirs, err := f.meant(c, path)
	if err != nil {
		return campaign.Stored{}, err
	}
	if !isTheirs {
		return a.open(path)
	}
	if slices.Contains(mutex.Models(), f.model) {
		return campaign.Stored{}, usage(fmt.Errorf("--model %s knows no holders that could be drawn", f.model), "take "+handle+" or "+lease+"; lockpick check judges by "+f.model)
	}
	s := campaign.Stored{Dir: path}
	if s.History, s.Notes, err = edn.ReadFile(path, f.lapse()); err != nil {
		return s, usage(err, badRecord)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(a.errs, "note: %s\n", n)
	}
	return s, nil
}

// lapse is how long a lease lasts, as package edn has it.
func (f *foreign) lapse() time.Duration {
	switch {
	case f.model == handle:
		return edn.Never
	case f.ttl == 0:
		return edn.Unknown
	}
	return f.ttl
}

// properties are all of them, but of a lease: its deadline is the earliest that can be, so
// that an acquire that returns after it proves nothing, and when a key was free nobody knows.
func (f *foreign) properties() []string {
	return slices.DeleteFunc(checker.Properties(), func(name string) bool {
		return f.model == lease && (name == checker.ValidOnReturn || checker.Liveness(name))
	})
}

// String says what the lock was taken for.
func (f *foreign) String() string {
	switch {
	case f.model == mutex.Mutex:
		return "mutex: held or free, and anybody may release it"
	case f.model == mutex.OwnerMutex:
		return "owner-mutex: held or free, and only the process that holds it may release it"
	case f.ttl > 0:
		return fmt.Sprintf("lease: held by a handle until release is called, or for %v", f.ttl)
	case f.model == lease:
		return "lease: held by a handle until release is called, or for a time that nobody knows"
	}
	return "handle: held by a handle until release is called, however long that takes"
}

// check is the verb for a history of Jepsen's.
func (f *foreign) check(a *app, path string, asJSON bool) error {
	v, js, notes, err := f.judge(path)
	if err != nil {
		return usage(err, badRecord)
	}
	for _, n := range notes {
		fmt.Fprintf(a.errs, "note: %s\n", n)
	}
	if !asJSON {
		fmt.Fprintf(a.out, "model %s\n", f)
	}
	return a.told(v, js, asJSON)
}
