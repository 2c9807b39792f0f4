package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kinds is the one table of faults.
var Kinds = []Kind{pause, gc, kill, shutdown, powerLoss, cut, delay, throttle, lose, hold, drop,
	clockJump, clockRate, clockSlew, clockStrobe, slowDisk, fullDisk, failover, unplug, starve, touch}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Capabilities lists what the kinds need of a cluster, each once, and whether one of the
// type of cluster has it.
func Capabilities(cluster any) (names []string, has map[string]bool) {
	has = map[string]bool{}
	add := func(name string, a act) {
		if !slices.Contains(names, name) {
			names = append(names, name)
			has[name] = a.has(cluster)
		}
	}
	for _, k := range Kinds {
		for _, on := range k.On {
			add(k.Capability(on), k.Act)
		}
		for _, mode := range k.Modes {
			if m, ok := k.ByMode[mode]; ok {
				add(m.Needs, m.Act)
			}
		}
	}
	return names, has
}

// ToldOf is how a kind is told of that a record names, which may be another lockpick's, or
// the machine's.
func ToldOf(kind string) Told {
	k, _ := KindOf(kind)
	told := k.Told
	if told.Began == "" {
		told.Began, told.Ended, told.Was = "{targets} is hit by {kind}", "{targets} is rid of {kind}", "was hit by {kind}"
	}
	return told
}

// Details is what a fault does besides its kind and targets, in the words of a
// scenario file: "by 11s, for 10s".
func (f Fault) Details() string {
	var parts []string
	add := func(there bool, name string, value any) {
		if there {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	kind, _ := KindOf(f.Kind)
	add(f.Mode != "" && len(kind.Modes) > 0 && f.Mode != kind.Modes[0], "mode", f.Mode)
	add(f.Way != "", "way", f.Way)
	add(f.By != 0, "by", f.By)
	add(f.Rate != 0, "rate", f.Rate)
	add(f.Delay != Span{}, "delay", f.Delay)
	add(f.Share != 0, "share", fmt.Sprintf("%g %%", 100*f.Share))
	add(f.Bandwidth != 0, "bandwidth", f.Bandwidth)
	add(f.CPU != 0, "cpu", f.CPU)
	add(f.Memory != 0, "memory", Bytes(f.Memory))
	add(f.Every != Span{}, "every", f.Every)
	add(f.Lasts != Span{}, "lasts", f.Lasts)
	if f.For != nil {
		add(true, "for", time.Duration(*f.For))
	}
	if f.Until != nil {
		add(true, "until", f.Until)
	}
	if f.Timer != nil {
		add(true, "timer", f.Timer)
	}
	return strings.Join(parts, ", ")
}
