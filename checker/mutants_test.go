package checker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsAreTold: the first line of each patch says which mistake it makes, each another.
func TestMutantsAreTold(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) < 12 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	told := map[string]string{}
	for _, path := range patches {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mistake := firstLine(text)
		if mistake == "" || strings.HasPrefix(mistake, "---") || told[mistake] != "" {
			t.Errorf("%s does not say what mistake it makes, or says what %s says: %q", path, told[mistake], mistake)
		}
		told[mistake] = path
	}
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
