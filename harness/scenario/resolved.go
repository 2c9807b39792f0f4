package scenario

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockpick/nemesis"
)

// Check says what is wrong with a resolved scenario, as it stands in a run.json or
// comes of scaling: it is held to all that a scenario file is held to. There is no
// second table of bounds for that. The scenario is written as a file would have it,
// and read by the file's own reader. What comes out must be the same again; what a
// file can't say, such as a field that the writer doesn't know, is an error, too. The
// error is a *Error, whose File is empty.
func (s Scenario) Check(known Known) error {
	if _, is := known.Kinds[s.Lock.Kind]; !is && slices.Contains(known.Locks, s.Lock.Kind) {
		known.Kinds = maps.Clone(known.Kinds)
		known.Kinds[s.Lock.Kind] = s.Lock.Kindred()
	}
	root, at := s.tree(known)
	fail := func(err error) error {
		p, ok := errors.AsType[*problem](err)
		if !ok {
			return err
		}
		n := p.node
		if n == nil {
			n = find(root, p.path)
		}
		return &Error{Field: at.fields[n], What: p.what, Hint: p.hint}
	}
	if s.Variant != "" {
		if err := named("variant").check(at.in("variant").leaf(s.Variant)); err != nil {
			return fail(err)
		}
	}
	r := defaults()
	r.scenario.Variant, r.unit = s.Variant, runUnit
	if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool { return st.Drawn }) {
		r.mostSteps = maxDrawn
	}
	if err := r.read(root, known); err != nil {
		return fail(err)
	}
	return s.unlike(r.scenario)
}

// tree is the scenario as the nodes that a file of it comes to, each with its field.
func (s Scenario) tree(known Known) (*yaml.Node, place) {
	w := defaults()
	w.scenario = s
	w.scenario.Expect = maps.Clone(s.Expect) // without what follows from the rest
	maps.DeleteFunc(w.scenario.Expect, func(property string, e Expectation) bool {
		return e.Follows != "" || e == implied && slices.Contains(required[s.Tier], property)
	})
	at, like := place{map[*yaml.Node]string{}, "scenario"}, defaults().scenario
	return w.whole(known).write(at, reflect.ValueOf(&w.scenario).Elem(), reflect.ValueOf(&like).Elem()), at
}

// unlike is the error that a file of the scenario comes to another one; nil: it doesn't.
func (s Scenario) unlike(back Scenario) error {
	for _, property := range required[s.Tier] { // a run.json of a version that didn't require it
		if _, had := s.Expect[property]; !had && back.Expect[property] == implied {
			delete(back.Expect, property)
		}
	}
	field, got, want := differ("scenario", reflect.ValueOf(said(s)), reflect.ValueOf(said(back)))
	if field == "" {
		return nil
	}
	return &Error{Field: field, What: fmt.Sprintf("no scenario has %s here", got),
		Hint: fmt.Sprintf("a scenario file that says the rest comes to %s", want)}
}

// said is the scenario without what its file doesn't say: which expectations nobody wrote down.
func said(s Scenario) Scenario {
	s.Expect = maps.Clone(s.Expect)
	for property, e := range s.Expect {
		e.Implied = false
		s.Expect[property] = e
	}
	return s
}

// differ finds the first field in which two values differ, and shows both.
func differ(path string, a, b reflect.Value) (field, got, want string) {
	shown := func(v reflect.Value) string {
		if !v.IsValid() || v.IsZero() {
			return "nothing"
		}
		return clip(fmt.Sprintf("%+v", reflect.Indirect(v)), 100)
	}
	unlike := func() (string, string, string) { return path, shown(a), shown(b) }
	if a.IsValid() != b.IsValid() {
		return unlike()
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			if field, got, want := differ(path+"."+name, a.Field(i), b.Field(i)); field != "" {
				return field, got, want
			}
		}
	case reflect.Pointer:
		if a.IsNil() != b.IsNil() {
			return unlike()
		}
		return differ(path, a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() {
			return unlike()
		}
		for i := range a.Len() {
			if field, got, want := differ(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); field != "" {
				return field, got, want
			}
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(append(a.MapKeys(), b.MapKeys()...)), func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) }) {
			if field, got, want := differ(path+"."+key.String(), a.MapIndex(key), b.MapIndex(key)); field != "" {
				return field, got, want
			}
		}
	default:
		if a.IsValid() && !a.Equal(b) {
			return unlike()
		}
	}
	return "", "", ""
}
