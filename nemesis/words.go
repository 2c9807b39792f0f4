package nemesis

import (
	"fmt"
	"strings"
	"time"
)

// String is a span as a scenario file has it.
func (s Span) String() string {
	if s.Min == s.Max {
		return s.Min.String()
	}
	return fmt.Sprintf("%v..%v", s.Min, s.Max)
}

// Bytes is a number of bytes as a scenario file has it: "8MB".
func Bytes(n int) string {
	for _, u := range []struct {
		name string
		size int
	}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d%s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
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
