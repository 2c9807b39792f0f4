package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
)

// lockLack is what a scenario lacks that isn't for the lock that was asked for.
const lockLack = "lock"

// unfit is a scenario that isn't for a lock, and why.
type unfit struct {
	scenario.Scenario
	why error
}

// lacks is why the scenario is skipped, as any other reason is told.
func (u unfit) lacks() []harness.Capability {
	return []harness.Capability{{Name: lockLack, Reason: u.why.Error()}}
}

// otherLock takes the override lock.kind as what it is: a wish to see another lock under the
// scenarios, which a plain override would put where it does not fit. The kind that makes
// mistakes needs one named, and stays an override.
func (f *runFlags) otherLock() error {
	given := cmp.Or(f.adapter, f.lock)
	if i := slices.IndexFunc(f.sets, setsKind); given != "" && i >= 0 {
		return usage(fmt.Errorf("%s and --set %s name two locks", given, f.sets[i]), "leave one of them out")
	}
	f.mistaken()
	f.sets = slices.DeleteFunc(f.sets, func(set string) bool {
		_, kind, _ := strings.Cut(set, "=")
		kind = strings.TrimSpace(kind)
		if _, known := kinds.All[kind]; !setsKind(set) || !known || kind == "broken" {
			return false
		}
		f.lock = kind
		return true
	})
	if f.lock == "" {
		return nil
	}
	if i := slices.IndexFunc(f.sets, setsKind); i >= 0 {
		return usage(fmt.Errorf("--set lock.kind=%s and --set %s name two locks", f.lock, f.sets[i]), "leave one of them out")
	}
	name, options, _ := strings.Cut(f.lock, ":")
	kind, known := kinds.All[name]
	switch {
	case name == "broken":
		return usage(errors.New("--lock broken makes no sense without a mistake"), "as in --lock broken --set lock.mistake=plain-del")
	case !known:
		return usage(fmt.Errorf("no lock kind %q", name), "one of "+strings.Join(kinds.Names(), ", ")+meant(name, kinds.Names()))
	}
	return f.lockOptions(name, kind, options)
}

var kindKey = regexp.MustCompile(`(^|[{,\s"'])kind["']?\s*:`)

// setsKind says whether an override names a kind of lock, by itself or with the whole section.
func setsKind(set string) bool {
	key, value, _ := strings.Cut(set, "=")
	key = strings.TrimSpace(key)
	return key == "lock.kind" || key == "lock" && kindKey.MatchString(value)
}

// setsMistake says whether an override names the mistake of a lock.
func setsMistake(set string) bool { return strings.HasPrefix(set, "lock.mistake=") }

// mistaken takes --lock broken with its mistake for what they come to, overrides.
func (f *runFlags) mistaken() {
	if f.lock == "broken" && slices.ContainsFunc(f.sets, setsMistake) {
		f.lock, f.sets = "", append([]string{"lock.kind=broken"}, f.sets...)
	}
}

// unmistakable refuses the lock that makes a mistake where none can be named.
func unmistakable(verb, lock string) error {
	if kind, _, _ := strings.Cut(lock, ":"); kind != "broken" {
		return nil
	}
	return usage(fmt.Errorf("%s takes no lock that makes a mistake on purpose, and broken does", verb), "lockpick fuzz --lock broken --set lock.mistake=plain-del looks for what comes of one")
}

// lockOptions reads what stands behind the kind: OPTION=VALUE,…
func (f *runFlags) lockOptions(name string, kind lock.Kind, text string) error {
	f.kind, f.options = name, map[string]string{}
	if text == "" {
		return nil
	}
	var all []string
	for _, o := range kind.Options {
		all = append(all, o.Name+"="+strings.Join(o.Values, "|"))
	}
	if len(all) == 0 {
		return usage(fmt.Errorf("lock %s has no options, and %q is none", name, text), "leave it out")
	}
	for part := range strings.SplitSeq(text, ",") {
		option, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(kind.Options, func(o lock.Option) bool { return o.Name == option })
		if i < 0 || !slices.Contains(kind.Options[i].Values, value) {
			return usage(fmt.Errorf("lock %s has no option %q", name, part), "options: "+strings.Join(all, ", "))
		}
		f.options[option] = value
	}
	return nil
}

// withLock puts another lock under the scenarios, where one was asked for, and says which
// ones aren't for it.
func (f *runFlags) withLock(chosen []pick) (fit []pick, not []unfit) {
	if f.kind == "" {
		return chosen, nil
	}
	for _, p := range chosen {
		kind := kinds.All[f.kind]
		s, err := p.With(f.kind, kind)
		s.Numbers = f.comparable(p, chosen)
		if kind.OwnTime && f.backend == simulation {
			var left []string
			if s, left = s.Unturned(); len(left) > 0 {
				f.undrawn = left
			}
		}
		if err == nil {
			s = s.Having(kind, f.options)
			err = s.Check(known())
		}
		if err != nil {
			not = append(not, unfit{p.Scenario, err})
			continue
		}
		if own := p.Scenario; own.Lock.Kind != s.Lock.Kind || len(f.options) > 0 {
			p.own = &own
		}
		p.Scenario = s
		fit = append(fit, p)
	}
	return fit, not
}

// comparable are the numbers expected of a scenario whose lock stays its own, but for those that
// are compared with a variant which has another lock now.
func (f *runFlags) comparable(p pick, chosen []pick) map[string]scenario.Bound {
	if p.Lock.Kind != f.kind {
		return nil
	}
	numbers := maps.Clone(p.Numbers)
	maps.DeleteFunc(numbers, func(_ string, b scenario.Bound) bool {
		return slices.ContainsFunc(chosen, func(o pick) bool {
			return o.From == p.From && cmp.Or(o.Variant, scenario.BaseVariant) == b.Than && o.Lock.Kind != f.kind
		})
	})
	return numbers
}

// setupsOf are a kind as it comes, and with each other value of each of its options.
func setupsOf(kind string) []string {
	all := []string{kind}
	for _, o := range kinds.All[kind].Options {
		for _, value := range o.Values[1:] {
			all = append(all, kind+":"+strings.TrimPrefix(o.With+","+o.Name+"="+value, ","))
		}
	}
	return all
}

// leavesOut says what random plans leave out for the lock's sake.
func (f *runFlags) leavesOut(w io.Writer) {
	if len(f.undrawn) > 0 {
		fmt.Fprintf(w, "%s: random plans leave out %s: this lock reads its own time, which can't be set here\n", f.backend, strings.Join(f.undrawn, ", "))
	}
}

// lockTable is the table of kinds.
func lockTable() string {
	var b strings.Builder
	width := 0
	for _, name := range kinds.Names() {
		width = max(width, len(name))
	}
	indent := width + 4
	for _, name := range kinds.Names() {
		k := kinds.All[name]
		b.WriteString(fmt.Sprintf("  %-*s", indent-2, name) + wrapped(indent, indent, k.Doc+": "+strings.Join(abilitiesOf(k), ", ")) + "\n")
		for _, o := range k.Options {
			b.WriteString(strings.Repeat(" ", indent) + wrapped(indent, indent+2, o.Name+"="+strings.Join(o.Values, "|")+": "+o.Doc) + "\n")
		}
	}
	return b.String()
}

// abilitiesOf are the words for what a kind is and can do.
func abilitiesOf(k lock.Kind) (out []string) {
	for _, x := range []struct {
		word string
		is   bool
	}{
		{"on one node", k.OneNode}, {"extends", k.Can.Extend}, {"limits extensions", k.Can.Limit}, {"gives fencing tokens", k.Can.Fence}, {"can be acquired again by its holder", k.Can.Reenter},
		{"asks nodes in turn", k.Can.Sequential}, {"reads its own time", k.OwnTime}, {"tells of a loss, and names no deadline", k.Belief == lock.BySignal},
		{"tells its holder nothing", k.Belief == lock.ByNothing},
	} {
		if x.is {
			out = append(out, x.word)
		}
	}
	return out
}
