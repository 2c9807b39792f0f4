package scenario

import (
	"maps"
	"slices"
)

// numbersForm is the bounds of measured numbers.
func (r *reading) numbersForm(k Known) shape {
	o := object{name: "numbers"}
	for _, name := range k.Numbers {
		o.fields = append(o.fields, field{key: name, doc: "bound of what is measured", shape: bound(func(b Bound) { r.numbers[name] = b })})
	}
	return o
}

func bound(set func(Bound)) shape {
	const hint = "write '>= 0.8', or '< 0.2 * NAME' to compare with another variant, or with base"
	return single{"a bound", hint, func(s string) (string, string) {
		b, wrong := parseBound(s)
		if wrong == "" {
			set(b)
		}
		return wrong, hint
	}, map[string]any{"type": "string", "pattern": `^ *(>=|<=|>|<) *[-+.0-9a-z]+( *\* *[-a-z0-9]+)? *$`}}
}

// checkThan: a bound can only lean on another variant of the file. What the base
// compares with a variant, that variant does not inherit.
func (r *reading) checkThan(variants []*variant) error {
	names := []string{BaseVariant}
	for _, v := range variants {
		if v.name == BaseVariant {
			return badAt("variants."+BaseVariant, "call it otherwise: expect.numbers calls the scenario itself "+BaseVariant, "a variant can't be called %s", BaseVariant)
		}
		names = append(names, v.name)
	}
	self := r.scenario.Variant
	for _, name := range slices.Sorted(maps.Keys(r.numbers)) {
		switch than := r.numbers[name].Than; {
		case than == "":
		case than == BaseVariant && self == "":
			return badAt("expect.numbers."+name, "name a variant", "it is compared with itself")
		case !slices.Contains(names, than):
			return badAt("expect.numbers."+name, suggest(than, "variants", names), "there is no variant %s", quote(than))
		case than == self:
			delete(r.numbers, name)
		}
	}
	return nil
}
