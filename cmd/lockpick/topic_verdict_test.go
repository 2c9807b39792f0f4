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

// The fields of verdict.json and outcome.json are those that are documented, in that
// order, marked where they may be missing. A field that is added, renamed or dropped
// fails here, so that it is done on purpose.
func TestVerdictFileIsTold(t *testing.T) {
	sections := strings.Split(topic("verdict-file"), "\n\n")[1:]
	structs := []any{verdict.Verdict{}, verdict.Result{}, verdict.Loss{}, verdict.Witness{}, outcome.Outcome{}, outcome.Judgement{}, outcome.Control{}, outcome.Confirmation{}, outcome.Number{}, scenario.Bound{}}
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
					t.Errorf("%T: %s has no meaning", s, name)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%T:\ntold    %v\nwritten %v", s, got, want)
		}
	}
}

// The schema is 1 in both.
func TestSchemaIsOne(t *testing.T) {
	if verdict.Schema != 1 {
		t.Error("the form of verdict.json is another: say so in help verdict-file")
	}
}
