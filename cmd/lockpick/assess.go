package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/files"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

type assessFlags struct {
	outcome.Deployment
	campaign.Environment
	adapter  string
	backend  string
	scale    float64
	jobs     int
	compare  []string
	budget   time.Duration
	seed     uint64
	seeds    int
	store    string
	timeout  time.Duration
	json     bool
	markdown bool
	command  string // repeats the assessment
}

const assessLong = `Say whether a lock is safe with your settings, and what to change.

Each hazard is tested at the size that you expect: the holder pauses, a node's clock jumps or
drifts, a node restarts without its data or loses power, messages are late, replies get lost, a
replica is promoted, the holder is cut off. lockpick then searches for the size at which the lock
breaks, compares it with Redlock's arithmetic, runs the catalog and random combinations of the
hazards with the same settings, and looks for changes that help. Each answer comes from runs.

Without --max-… and --hazard all hazards count, at the default sizes. With any of these flags,
only the hazards that you name count. What a node still has after a restart or a power loss depends
on --persistence. For a fail-over, each node has a replica that lags behind.

The settings may also be in a YAML file, with the names of the flags as keys; flags have
precedence:

  lock: redsync
  ttl: 8s
  nodes: 3
  max-pause: 5s
  hazard: [restart, power-loss]
  compare: [ttl=30s, persistence=always]

On real servers (--backend, or an adapter), only a few sizes are tried, all durations are scaled,
and there are no predictions. The page, Markdown, JSON and counterexamples are stored in
STORE/assessments.

The exit code is 0 if nothing that can happen breaks the lock, 1 if something does, and 2 if a
hazard could not be tested or decided.`

func assessCmd(a *app) *cobra.Command {
	f := &assessFlags{}
	c := &cobra.Command{
		Use:   "assess [FILE]",
		Short: "say whether a lock is safe with your settings, and what to change",
		Long:  assessLong,
		Example: `  lockpick assess --lock redsync --ttl 8s --nodes 3 --persistence everysec
  lockpick assess --max-pause 5s --max-clock-jump 1s --fence
  lockpick assess --lock redislock --hazard fail-over,restart --compare ttl=30s --compare lock=hardened
  lockpick assess settings.yaml --budget 5m --json`,
		Args: cobra.MaximumNArgs(1),
	}
	fs := c.Flags()
	addDeploymentFlags(fs, &f.Deployment)
	fs.StringVar(&f.adapter, "adapter", "", "test the lock of this adapter, on real processes; see lockpick help adapter")
	environment := f.addEnvironmentFlags(fs)
	fs.StringArrayVar(&f.compare, "compare", nil, "add a column with other settings, as in ttl=30s or lock=hardened,fence=true")
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.Float64Var(&f.scale, "scale", 0, "factor for all durations on real backends (default 0.1)")
	fs.IntVar(&f.jobs, "jobs", 1, "number of concurrent runs on real backends")
	fs.DurationVar(&f.budget, "budget", 2*time.Minute, "time limit: measurements that don't fit are left out")
	fs.Uint64Var(&f.seed, "seed", 1, "the first seed")
	fs.IntVar(&f.seeds, "seeds", 20, "number of seeds per value")
	addStoreFlag(c, &f.store, "the result")
	fs.DurationVar(&f.timeout, "timeout", defaultTimeout, "time limit of one run, in wall-clock time")
	addJSONFlag(c, &f.json, "the result")
	fs.BoolVar(&f.markdown, "markdown", false, "print the result as Markdown")
	c.RegisterFlagCompletionFunc("hazard", completer(false, campaign.HazardNames))
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := readSettings(fs, args[0]); err != nil {
				return err
			}
		}
		f.nameHazards(fs, environment)
		f.command = assessCommand(fs)
		return a.assess(c.Context(), f, fs)
	}
	return c
}

// addDeploymentFlags adds the settings of the lock and its servers, which --compare may change.
func addDeploymentFlags(fs *pflag.FlagSet, d *outcome.Deployment) {
	d.Drift = 0.01
	fs.StringVar(&d.Lock, "lock", "redlock", "kind of lock, as in redsync or KIND:OPTION=VALUE; see lockpick help locks")
	fs.DurationVar(&d.TTL, "ttl", 10*time.Second, "time to live of the lock's keys")
	fs.IntVar(&d.Nodes, "nodes", 5, "number of nodes")
	fs.StringVar(&d.Persistence, "persistence", scenario.PersistNone, "fsync policy of the nodes: none, no, everysec or always")
	fs.Var((*percent)(&d.Drift), "drift", "clock drift that the lock allows for, as a share of the TTL")
	fs.BoolVar(&d.Fence, "fence", false, "the resource rejects a fencing token lower than the highest it has seen")
	fs.DurationVar(&d.RestartDelay, "restart-delay", 0, "how long a node stays down after a crash or a power loss")
}

// addEnvironmentFlags adds the flags for what can happen, and returns the hazard that each size
// belongs to.
func (f *assessFlags) addEnvironmentFlags(fs *pflag.FlagSet) map[string]string {
	f.Environment = campaign.DefaultEnvironment
	d := campaign.DefaultEnvironment
	fs.DurationVar(&f.Pause, "max-pause", d.Pause, "longest pause of a holder, as by garbage collection or a suspended machine")
	fs.DurationVar(&f.ClockJump, "max-clock-jump", d.ClockJump, "largest jump of a node's clock")
	fs.Var((*percent)(&f.ClockDrift), "max-clock-drift", "largest difference between the rates of two clocks")
	fs.DurationVar(&f.Delay, "max-delay", d.Delay, "longest delay of a message")
	fs.StringSliceVar(&f.Hazards, "hazard", nil, "other hazards that can happen: "+strings.Join(campaign.HazardNames(), ", "))
	return map[string]string{"max-pause": campaign.HazardPause, "max-clock-jump": campaign.HazardJump, "max-clock-drift": campaign.HazardDrift, "max-delay": campaign.HazardDelay}
}

// percent is a share that flags write as a percentage.
type percent float64

func (p *percent) String() string { return outcome.FormatPercent(100 * float64(*p)) }
func (p *percent) Type() string   { return "percent" }
func (p *percent) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil {
		return errors.New("not a percentage such as 1%")
	}
	*p = percent(v / 100)
	return nil
}

// maxSettingsFile is the maximum size of a settings file, in bytes.
const maxSettingsFile = 1 << 20

// readSettings sets the flags in a YAML file, except those on the command line.
func readSettings(fs *pflag.FlagSet, file string) error {
	text, err := files.Read(file, maxSettingsFile)
	if err != nil {
		return usageError(err, "name a YAML file with settings, as in lockpick assess settings.yaml")
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return usageError(fmt.Errorf("%s: %w", file, err), "see lockpick assess --help for an example")
	}
	if len(root.Content) == 0 {
		return nil
	}
	if root.Content[0].Kind != yaml.MappingNode {
		return usageError(fmt.Errorf("%s:%d: not a list of KEY: VALUE", file, root.Content[0].Line), "see lockpick assess --help for an example")
	}
	settings := root.Content[0].Content
	var onCommandLine []string
	fs.Visit(func(flag *pflag.Flag) { onCommandLine = append(onCommandLine, flag.Name) })
	seen := map[string]bool{}
	for i := 0; i+1 < len(settings); i += 2 {
		key, value := settings[i], settings[i+1]
		flag := fs.Lookup(key.Value)
		switch {
		case flag == nil || key.Value == "help":
			var names []string
			fs.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
			return usageError(fmt.Errorf("%s:%d: unknown setting %q", file, key.Line, key.Value), "use the flags of lockpick assess"+suggestion(key.Value, names))
		case seen[key.Value]:
			return usageError(fmt.Errorf("%s:%d: %s is set twice", file, key.Line, key.Value), "remove one of them")
		}
		seen[key.Value] = true
		if slices.Contains(onCommandLine, key.Value) {
			continue
		}
		values := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			values = value.Content
		}
		for _, v := range values {
			if v.Kind != yaml.ScalarNode {
				return usageError(fmt.Errorf("%s:%d: %s is not a value or a list of values", file, v.Line, key.Value), "as in "+key.Value+": "+flag.DefValue)
			}
			if err := fs.Set(key.Value, v.Value); err != nil {
				return usageError(fmt.Errorf("%s:%d: %w", file, v.Line, err), "as in "+key.Value+": "+flag.DefValue)
			}
		}
	}
	return nil
}

// nameHazards restricts the environment to the hazards that the user named, if any.
func (f *assessFlags) nameHazards(fs *pflag.FlagSet, sizes map[string]string) {
	for _, name := range campaign.HazardNames() {
		for flag, hazard := range sizes {
			if hazard == name && fs.Changed(flag) && !slices.Contains(f.Hazards, name) {
				f.Hazards = append(f.Hazards, name)
			}
		}
	}
}

// assessCommand returns the command that repeats the assessment, without a settings file.
func assessCommand(fs *pflag.FlagSet) string {
	command := "lockpick assess"
	fs.Visit(func(flag *pflag.Flag) {
		switch values, isList := flag.Value.(pflag.SliceValue); {
		case slices.Contains([]string{"store", "json", "markdown"}, flag.Name):
		case isList && flag.Name == "compare":
			for _, v := range values.GetSlice() {
				command += " --compare " + quote(v)
			}
		case isList:
			command += " --" + flag.Name + " " + quote(strings.Join(values.GetSlice(), ","))
		case flag.Value.Type() == "bool":
			command += " --" + flag.Name + "=" + flag.Value.String()
		default:
			command += " --" + flag.Name + " " + quote(flag.Value.String())
		}
	})
	return strings.ReplaceAll(command, "=true", "")
}

// maxAssessSeeds is the maximum number of seeds per value.
const maxAssessSeeds = 100_000

// validate rejects invalid settings.
func (f *assessFlags) validate() error {
	for _, name := range f.Hazards {
		if !slices.Contains(campaign.HazardNames(), name) {
			return usageError(fmt.Errorf("no hazard %q", name), "one of "+strings.Join(campaign.HazardNames(), ", ")+suggestion(name, campaign.HazardNames()))
		}
	}
	switch {
	case f.seeds < 1 || f.seeds > maxAssessSeeds:
		return usageError(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("use a number from 1 to %d", maxAssessSeeds))
	case f.Pause < 0 || f.ClockJump < 0 || f.Delay < 0 || f.Pause > time.Hour || f.ClockJump > time.Hour || f.Delay > time.Hour:
		return usageError(errors.New("a --max duration is out of range"), "use 0s to 1h")
	case !(f.ClockDrift >= 0 && f.ClockDrift <= 1):
		return usageError(fmt.Errorf("--max-clock-drift %g%% is out of range", 100*f.ClockDrift), "use a percentage from 0 to 100")
	case f.budget < 0:
		return usageError(fmt.Errorf("--budget %v is negative", f.budget), "use a duration, or 0s for no limit")
	case f.timeout <= 0:
		return usageError(fmt.Errorf("--timeout %v is not positive", f.timeout), "see lockpick assess --help")
	case f.store == "":
		return emptyStoreError()
	case !(f.scale >= 0 && f.scale <= 1000):
		return usageError(fmt.Errorf("--scale %g is out of range", f.scale), "use a factor up to 1000, as in --scale 0.5")
	case f.scale > 0 && f.backend == simulation:
		return usageError(errors.New("--scale applies to real backends only"), "leave it out, or choose one with --backend")
	case f.jobs < 1 || f.jobs > maxJobs:
		return usageError(fmt.Errorf("--jobs %d is out of range", f.jobs), fmt.Sprintf("use a number from 1 to %d", maxJobs))
	case f.json && f.markdown:
		return usageError(errors.New("--json and --markdown contradict each other"), "leave one of them out")
	}
	return nil
}

// checkDeployment rejects settings that can't be tested. A lock on one node has one node.
func checkDeployment(d *outcome.Deployment, option string) error {
	switch {
	case d.TTL < 500*time.Millisecond || d.TTL > campaign.MaxTTL:
		return usageError(fmt.Errorf("%s: a TTL of %v is out of range", option, d.TTL), fmt.Sprintf("use 500ms to %v", campaign.MaxTTL))
	case d.Nodes < 1 || d.Nodes > 15:
		return usageError(fmt.Errorf("%s: %d nodes are out of range", option, d.Nodes), "use a number from 1 to 15")
	case !(d.Drift >= 0 && d.Drift <= campaign.MaxDrift):
		return usageError(fmt.Errorf("%s: a drift allowance of %g%% is out of range", option, 100*d.Drift), fmt.Sprintf("use a percentage from 0 to %g", 100*campaign.MaxDrift))
	case d.RestartDelay < 0 || d.RestartDelay > time.Hour:
		return usageError(fmt.Errorf("%s: a restart delay of %v is out of range", option, d.RestartDelay), "use 0s to 1h")
	case !slices.Contains([]string{scenario.PersistNone, "no", "everysec", scenario.PersistAlways}, d.Persistence):
		return usageError(fmt.Errorf("%s: no persistence %q", option, d.Persistence), "use none, no, everysec or always")
	}
	if err := rejectBroken("assess", d.Lock); err != nil {
		return err
	}
	kind, err := (&campaign.Selection{Lock: d.Lock}).Kind(knownNames())
	if err != nil {
		return selectionError(err)
	}
	k := kinds.All[kind]
	if d.Fence && !k.Can.Fence {
		return usageError(fmt.Errorf("%s: %s issues no fencing tokens", option, kind), "leave out fence, or use a lock that does, as in --lock hardened")
	}
	if k.OneNode {
		d.Nodes = 1
	}
	return nil
}

// alternatives parses --compare.
func (f *assessFlags) alternatives() (all []campaign.Alternative, err error) {
	for _, label := range f.compare {
		alternative := campaign.Alternative{Label: label}
		fs := pflag.NewFlagSet("compare", pflag.ContinueOnError)
		addDeploymentFlags(fs, &alternative.Deployment)
		alternative.Deployment = f.Deployment
		for setting := range strings.SplitSeq(label, ",") {
			key, value, _ := strings.Cut(setting, "=")
			if fs.Lookup(key) == nil {
				return nil, usageError(fmt.Errorf("--compare %s: no setting %q", label, key), "as in ttl=30s, with lock, ttl, nodes, persistence, drift, fence or restart-delay")
			}
			if key == "lock" && f.adapter != "" {
				return nil, usageError(fmt.Errorf("--compare %s: an adapter can't be compared with another lock in one assessment", label), "assess the other lock separately")
			}
			if err := fs.Set(key, value); err != nil {
				return nil, usageError(fmt.Errorf("--compare %s: %w", label, err), "as in ttl=30s")
			}
		}
		if err := checkDeployment(&alternative.Deployment, "--compare "+label); err != nil {
			return nil, err
		}
		all = append(all, alternative)
	}
	return all, nil
}

func (a *app) assess(ctx context.Context, f *assessFlags, fs *pflag.FlagSet) error {
	if f.adapter != "" && f.backend == simulation {
		if fs.Changed("backend") {
			return usageError(errors.New("an adapter needs real servers, and --backend sim has none"), "leave out --backend, or use --backend process")
		}
		f.backend = "process"
	}
	if err := f.validate(); err != nil {
		return err
	}
	base := campaign.Selection{Adapter: f.adapter, Backend: f.backend, Scale: f.scale}
	if f.adapter == "" || fs.Changed("lock") {
		base.Lock = f.Lock // so that two locks are rejected
	}
	program, err := selectAdapter(ctx, &base, "")
	if err != nil {
		return err
	}
	f.Lock = base.Lock
	nodes := f.Nodes
	if err := checkDeployment(&f.Deployment, "settings"); err != nil {
		return err
	}
	if fs.Changed("nodes") {
		warnIfNodesUnused(a.errOut, nodes, f.Nodes)
	}
	alternatives, err := f.alternatives()
	if err != nil {
		return err
	}
	runner, err := a.runner(ctx, f.backend, f.store, f.jobs, program...)
	if err != nil {
		return err
	}
	defer runner.Close()
	runner.Workers.Timeout = f.timeout
	shortest, longest := sim.Latency()
	x := &campaign.Assessor{Runner: runner, Known: knownNames(), Base: base, OneWay: client.Range{Min: shortest, Max: longest}, Deployment: f.Deployment, Environment: f.Environment,
		Alternatives: alternatives, FirstSeed: f.seed, Seeds: f.seeds, Budget: f.budget, Store: f.store, Command: f.command, Log: a.errOut}
	result, folder, err := x.Run(ctx)
	if err != nil {
		return selectionError(err)
	}
	a.code = outcome.WorseCode(a.code, result.Code)
	switch {
	case f.json:
		err = printJSON(a.out, result)
	case f.markdown:
		suites.WriteAssessmentMarkdown(a.out, result)
	default:
		suites.PrintAssessment(a.out, result)
	}
	fmt.Fprintf(a.errOut, "report: %s/%s\n", folder, suites.AssessmentPage)
	return errors.Join(err, suites.Index(f.store))
}
