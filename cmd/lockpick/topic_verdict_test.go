package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// TestVerdictFileTopic checks that help verdict-file lists the fields of verdict.json and
// outcome.json in order, with optional fields marked. It makes sure that nobody adds, renames or
// removes a field by accident.
func TestVerdictFileTopic(t *testing.T) {
	sections := strings.Split(topicText("verdict-file"), "\n\n")[1:]
	structs := []any{verdict.Verdict{}, verdict.Result{}, verdict.Loss{}, verdict.Witness{}, outcome.Outcome{}, outcome.Judgement{}, outcome.Comparison{}, outcome.Confirmation{}, outcome.Number{}, scenario.Bound{}}
	if len(sections) != len(structs) {
		t.Fatalf("%d sections, want %d", len(sections), len(structs))
	}
	for i, s := range structs {
		var want, got []string
		for f := range reflect.TypeOf(s).Fields() {
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() || name == "-":
				continue
			case rest == "omitempty":
				name += " ?"
			case rest != "" || name == "":
				t.Errorf("%T.%s: tag %q", s, f.Name, f.Tag)
			}
			want = append(want, name)
		}
		for line := range strings.Lines(sections[i]) {
			if strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") {
				name, meaning := strings.TrimSpace(line[:17]), strings.TrimSpace(line[17:])
				got = append(got, name)
				if meaning == "" && name != "schema" {
					t.Errorf("%T: %s has no description", s, name)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%T:\ndocumented %v\nwritten    %v", s, got, want)
		}
	}
}

// TestSchemaIsOne makes sure that nobody changes the schema number by accident.
func TestSchemaIsOne(t *testing.T) {
	if verdict.Schema != 1 {
		t.Error("the schema of verdict.json changed: update help verdict-file")
	}
}
