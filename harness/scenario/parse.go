package scenario

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Parse reads a scenario file: the base first, then its variants in the order
// of the file. It is strict; what is wrong comes back as a *Error. name
// is used in errors only.
func Parse(name string, data []byte, known Known) ([]Scenario, error) {
	return ParseWith(name, data, known, nil, nil)
}

// ParseWith is Parse with overrides of the form key=value, which win over what
// file and variants say. A key is as in a variant's set: lock.ttl,
// plan.1.fault.for, or a whole section. What the scenario expects may no longer
// be true then; that is for the caller to say. wanted tells which variants to
// make, so that an override need not fit the others; nil is all of them.
func ParseWith(name string, data []byte, known Known, sets []string, wanted func(variant string) bool) ([]Scenario, error) {
	doc, err := load(name, data)
	if err != nil {
		return nil, err
	}
	base, err := doc.read(doc.root, known, "")
	if err != nil {
		return nil, err
	}
	if err := base.checkThan(base.variants); err != nil {
		return nil, doc.locate(err, "")
	}
	file := *doc
	var out []Scenario
	for _, v := range append([]variation{{}}, base.variants...) {
		if wanted != nil && !wanted(v.Name) {
			continue
		}
		tree, err := file.apply(v)
		if err != nil {
			return nil, file.locate(err, v.Name)
		}
		if tree, err = doc.override(tree, sets); err != nil {
			return nil, doc.locate(err, v.Name)
		}
		doc.root = tree
		r, err := doc.read(tree, known, v.Name)
		if err != nil {
			return nil, err
		}
		if err := r.checkThan(base.variants); err != nil {
			return nil, doc.locate(err, v.Name)
		}
		out = append(out, r.scenario)
	}
	return out, nil
}

// Schema returns the JSON Schema of scenario files, for editors. It is made
// from the tables that Parse reads by; what depends on more than one key
// (targets that must exist, a timeout that must fit the TTL) only Parse checks.
func Schema(known Known) []byte {
	s := defaults().whole(known).schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "lockpick scenario"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // maps, strings and numbers only: can't happen
	}
	return append(out, '\n')
}

// read makes a scenario of a tree.
func (d *document) read(tree *yaml.Node, known Known, variant string) (*reading, error) {
	r := defaults()
	r.scenario.Variant = variant
	if err := r.read(tree, known); err != nil {
		return nil, d.locate(err, variant)
	}
	return r, nil
}

func (r *reading) read(tree *yaml.Node, known Known) error {
	if err := r.whole(known).read(tree, reflect.ValueOf(&r.scenario).Elem()); err != nil {
		return err
	}
	r.finish()
	if name := r.scenario.Name; slices.Contains(known.Folders, name) {
		return badAt("name", "call it otherwise: a store has a folder "+name+" for other things", "a scenario can't be called %s", quote(name))
	}
	return checkWhole(&r.scenario, known)
}

// finish fills in what depends on more than one key.
func (r *reading) finish() {
	s := &r.scenario
	if s.Workload.Cycles == 0 && s.Workload.For == 0 {
		s.Workload.Cycles = defaultCycles
	}
	if len(s.Clients) == 0 {
		s.Clients = clientsNamed(defaultClients)
	}
	for property, e := range s.Expect {
		if e.Cause != "" {
			e.Want = wantViolated
			s.Expect[property] = e
		}
	}
	Imply(s.Expect, s.Tier)
	if s.Random != nil || s.Vacuous {
		excuse(s.Expect)
	}
}

// checkThan: a bound can only lean on another variant of the file. What the base
// compares with a variant, that variant does not inherit.
func (r *reading) checkThan(variants []variation) error {
	names := []string{BaseVariant}
	for _, v := range variants {
		if v.Name == BaseVariant {
			return badAt("variants."+BaseVariant, "call it otherwise: expect.numbers calls the scenario itself "+BaseVariant, "a variant can't be called %s", BaseVariant)
		}
		names = append(names, v.Name)
	}
	self := r.scenario.Variant
	for _, name := range slices.Sorted(maps.Keys(r.scenario.Numbers)) {
		switch than := r.scenario.Numbers[name].Than; {
		case than == "":
		case than == BaseVariant && self == "":
			return badAt("expect.numbers."+name, "name a variant", "it is compared with itself")
		case !slices.Contains(names, than):
			return badAt("expect.numbers."+name, suggest(than, "variants", names), "there is no variant %s", quote(than))
		case than == self:
			delete(r.scenario.Numbers, name)
		}
	}
	return nil
}
