package scenarios

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"lockpick/harness/scenario"
	"lockpick/internal/files"
)

// Found is a scenario, and what the one who asked calls its file.
type Found struct {
	scenario.Scenario
	From string // a path, or a name of the catalogue
}

// Exact names exactly this scenario, as Find takes it.
func (f Found) Exact() string { return f.From + "/" + f.Variant }

// Choose is what several names mean, all of the catalogue where there are none, as far as it has
// all the tags. What is named twice is there once. failed is the name that an error is about.
func Choose(names, tags []string, known scenario.Known, sets []string) (all []Found, failed string, err error) {
	if len(names) == 0 {
		names = []string{"*"}
	}
	had := map[string]bool{}
	for _, name := range names {
		found, err := Find(name, known, sets)
		if err != nil {
			return nil, name, err
		}
		for _, f := range found {
			untagged := slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(f.Tags, tag) })
			if !had[f.Exact()] && !untagged {
				all = append(all, f)
			}
			had[f.Exact()] = true
		}
	}
	return all, "", nil
}

// Find is what one name means: NAME with all variants, NAME/VARIANT, NAME/ for the base
// alone, globs of these, and files, likewise with a variant. sets are overrides, which need
// to fit only what the name means.
func Find(name string, known scenario.Known, sets []string) ([]Found, error) {
	if file, variant, ok := existingFile(name); ok {
		text, err := files.Read(file, scenario.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		found, err := parse(file, file, text, variant, known, sets)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s has no variant %q: they stand under variants:, and %s/ is the base alone", file, variant, file)
		}
		return found, err
	}
	base, variant, exact := strings.Cut(name, "/")
	if !exact {
		variant = "*"
	}
	var out []Found
	for _, n := range order {
		if !matches(base, n) {
			continue
		}
		text, err := Read(n)
		if err != nil {
			return nil, err
		}
		found, err := parse(n, n+".yaml", text, variant, known, sets)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no scenario or file %q", name)
	}
	return out, nil
}

func parse(from, name string, text []byte, variant string, known scenario.Known, sets []string) ([]Found, error) {
	all, err := scenario.ParseWith(name, text, known, sets, func(v string) bool { return matches(variant, v) })
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, s := range all {
		out = append(out, Found{s, from})
	}
	return out, nil
}

func matches(pattern, name string) bool {
	is, err := path.Match(pattern, name)
	return err == nil && is
}

// existingFile splits the name of a file, FILE/VARIANT or FILE/.
func existingFile(name string) (file, variant string, ok bool) {
	there := func(p string) bool {
		info, err := os.Stat(p)
		return err == nil && !info.IsDir()
	}
	if there(name) {
		return name, "*", true
	}
	i := strings.LastIndex(name, "/")
	if i > 0 && there(name[:i]) {
		return name[:i], name[i+1:], true
	}
	return "", "", false
}
