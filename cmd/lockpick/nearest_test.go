package main

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"run", "replay", "report", "list", "seeds", "seed", "gc-pause-after-acquire"}
	for word, want := range map[string]string{"rnu": "run", "rn": "run", "reprot": "report", "lst": "list", "sed": "seed", "seedz": "seeds",
		"gc-puase-after-aquire": "gc-pause-after-acquire", "gc-pause": "gc-pause-after-acquire", "xyz": "", "": "", "frobnicate": ""} {
		if got := nearestName(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
