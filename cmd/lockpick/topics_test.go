package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"lockpick/checker"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// TestScenarioFormatTopic checks that the example in help scenario-format is a valid scenario, and
// stays valid with every documented form of clients and triggers.
func TestScenarioFormatTopic(t *testing.T) {
	_, rest, _ := strings.Cut(topicText("scenario-format"), "\n\n")
	file, triggers, _ := strings.Cut(rest, "\n\n")
	if all, err := scenario.Parse("help", []byte(file), knownNames()); err != nil || len(all) != 2 {
		t.Errorf("%d scenarios, %v", len(all), err)
	}
	clients := strings.NewReplacer("clients: 2                    # or a map: ", "clients: ", "\n                              #  ", "\n   ").Replace(file)
	if !strings.Contains(clients, "clients: {c1:") {
		t.Errorf("the map of clients was not found:\n%s", clients)
	}
	numTriggers := 0
	for line := range strings.Lines(triggers) {
		trigger, _, ok := strings.Cut(strings.TrimSpace(line), "}  ")
		if !ok {
			continue
		}
		numTriggers++
		modifiedFile := strings.Replace(clients, "{client: c1, point: between-check-and-write, nth: 2}", trigger+"}", 1)
		modifiedFile = strings.Replace(modifiedFile, "c1: {reach: [n1, n2],", "c1: {", 1) // otherwise there is no link c1-n3
		if _, err := scenario.Parse("help", []byte(modifiedFile), knownNames()); err != nil {
			t.Errorf("%s}: %v", trigger, err)
		}
	}
	if numTriggers != 4 {
		t.Errorf("%d triggers, want 4", numTriggers)
	}
}

// TestFaultsTopic checks that help faults describes every kind of fault, every parameter and every
// shape.
func TestFaultsTopic(t *testing.T) {
	table, rest, ok := strings.Cut(topicText("faults"), "\n\n")
	if !ok {
		t.Fatal("no text below the table")
	}
	for _, k := range nemesis.Kinds {
		if !strings.Contains("\n"+table, "\n"+k.Name+" ") {
			t.Errorf("%s is not in the table", k.Name)
		}
		for _, word := range append(slices.Clone(k.Modes), k.Capability(k.TargetTypes[0])) {
			if !strings.Contains(table, word) {
				t.Errorf("%s: %s is missing", k.Name, word)
			}
		}
		for _, f := range k.Fields {
			if !strings.Contains(rest, "\n  "+f+" ") {
				t.Errorf("%s takes %s, which is not described", k.Name, f)
			}
		}
	}
	for _, shape := range nemesis.Shapes {
		if !strings.Contains(rest, shape) {
			t.Errorf("the shape %s is missing", shape)
		}
	}
	for line := range strings.Lines(topicText("faults")) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 92 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestPropertiesTopic checks that help properties and the checker's README have an entry for each
// property.
func TestPropertiesTopic(t *testing.T) {
	readme, err := os.ReadFile("../../checker/README.md")
	must(t, err)
	for _, name := range checker.Properties() {
		if !strings.Contains("\n"+topicText("properties"), "\n"+name+" ") {
			t.Errorf("help properties has no entry for %s", name)
		}
		if !strings.Contains(string(readme), "\n| "+name+" |") {
			t.Errorf("the table of checker/README.md has no row for %s", name)
		}
	}
}

// TestReservedFolderNames checks that help files lists the store's own folders, and that no
// scenario can have the name of such a folder, because its runs would be stored there.
func TestReservedFolderNames(t *testing.T) {
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^store/([a-z-]+)/`).FindAllStringSubmatch(topicText("files"), -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	listed = slices.Compact(listed)
	for _, name := range storeFolders {
		if !slices.Contains(listed, name) {
			t.Errorf("help files does not mention %s", name)
		}
	}
	if len(listed) < 8 {
		t.Errorf("help files mentions only %v", listed)
	}
	for _, name := range listed {
		file := "name: " + name + "\nclaim: it has a name\nsource: nowhere\n"
		if _, err := scenario.Parse("shelf", []byte(file), knownNames()); err == nil || !strings.Contains(err.Error(), "can't be named") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := scenario.Parse("beside", []byte(strings.Replace(file, name, name+"-1", 1)), knownNames()); err != nil {
			t.Error(err)
		}
	}
}
