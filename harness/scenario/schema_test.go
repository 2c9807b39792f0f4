package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestSchemaAcceptsCatalog(t *testing.T) {
	schema := readSchema(t)
	for name, data := range catalog(t) {
		if err := checkConforms(t, schema, data); err != nil {
			t.Errorf("%s.yaml: %v", name, err)
		}
	}
}

// The schema rejects the same single-key mistakes as Parse.
func TestSchemaRejectsMistakes(t *testing.T) {
	schema := readSchema(t)
	if err := checkConforms(t, schema, []byte(requiredKeys)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"name: x\nsource: y", requiredKeys + "topolgy: {nodes: 5}", requiredKeys + "topology: {nodes: 0}", requiredKeys + "topology: {image: Redis}", requiredKeys + "lock: {ttl: -10s}", requiredKeys + "lock: {kind: redlok}",
		requiredKeys + "clients: {alice: {}}", requiredKeys + "clients: {}", requiredKeys + "workload: {hold: 2s..}", requiredKeys + "workload: {check: 1}",
		requiredKeys + "plan: [{when: {at: 3s, point: before-release}, fault: {kind: kill}}]", requiredKeys + "plan: [{when: {at: 3s}}]",
		requiredKeys + "expect: {mutual-exclusion: hold}", requiredKeys + "variants: {a: {}}", requiredKeys + "variants: {a: {set: {expect: {}}}}",
	} {
		if checkConforms(t, schema, []byte(text)) == nil {
			t.Errorf("the schema accepts\n%s", text)
		}
	}
}

func TestSchemaIsDeterministic(t *testing.T) {
	if !bytes.Equal(Schema(testNames), Schema(testNames)) {
		t.Error("two schemas for the same names differ")
	}
}

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(Schema(testNames), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func checkConforms(t *testing.T, schema map[string]any, data []byte) error {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return validate(schema, value, "scenario")
}

// validate checks a value against the part of JSON Schema that Schema uses. Unknown keywords are
// errors.
func validate(schema map[string]any, v any, at string) error {
	if want, ok := schema["type"]; ok && typeOf(v) != want && !(typeOf(v) == "integer" && want == "number") {
		return fmt.Errorf("%s: %v is not of type %v", at, v, want)
	}
	for keyword, want := range schema {
		ok := true
		var err error
		switch keyword {
		case "$schema", "title", "description", "properties", "type":
		case "enum":
			ok = contains(want.([]any), v)
		case "pattern":
			s, isText := v.(string)
			ok = !isText || regexp.MustCompile(want.(string)).MatchString(s)
		case "minLength", "minItems", "minProperties", "maxItems":
			n := reflect.ValueOf(v).Len()
			ok = keyword == "maxItems" && n <= int(want.(float64)) || keyword != "maxItems" && n >= int(want.(float64))
		case "minimum", "maximum", "exclusiveMinimum":
			ok = withinBound(keyword, number(v), want.(float64))
		case "uniqueItems":
			seen := map[any]bool{}
			for _, item := range v.([]any) {
				ok = ok && !seen[item]
				seen[item] = true
			}
		case "items":
			err = forEach(v, func(key string, item any) error { return validate(want.(map[string]any), item, at+"."+key) })
		case "required":
			for _, key := range want.([]any) {
				if _, there := v.(map[string]any)[key.(string)]; !there {
					err = fmt.Errorf("%s has no %v", at, key)
				}
			}
		case "propertyNames":
			err = forEach(v, func(key string, _ any) error { return validate(want.(map[string]any), key, at+" key") })
		case "additionalProperties":
			err = validateKeys(schema, v, at)
		case "oneOf":
			ok = countMatches(want.([]any), v, at) == 1
		default:
			err = fmt.Errorf("unknown keyword %s", keyword)
		}
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s: %v violates %s %v", at, v, keyword, want)
		}
	}
	return nil
}

func validateKeys(schema map[string]any, v any, at string) error {
	properties, _ := schema["properties"].(map[string]any)
	return forEach(v, func(key string, item any) error {
		if s, ok := properties[key]; ok {
			return validate(s.(map[string]any), item, at+"."+key)
		}
		if s, ok := schema["additionalProperties"].(map[string]any); ok {
			return validate(s, item, at+"."+key)
		}
		return fmt.Errorf("%s: unknown key %s", at, key)
	})
}

func countMatches(schemas []any, v any, at string) (n int) {
	for _, s := range schemas {
		if s := s.(map[string]any); typeOf(v) == s["type"] || s["type"] == nil {
			if validate(s, v, at) == nil {
				n++
			}
		}
	}
	return n
}

// forEach calls f for the entries of a mapping or a list. It ignores other values, whose type
// validate checks.
func forEach(v any, f func(key string, item any) error) error {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if err := f(key, item); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := f(fmt.Sprint(i+1), item); err != nil {
				return err
			}
		}
	}
	return nil
}

func typeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	}
	return "null"
}

func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

func withinBound(keyword string, v, bound float64) bool {
	switch keyword {
	case "minimum":
		return v >= bound
	case "maximum":
		return v <= bound
	}
	return v > bound
}

func contains(list []any, v any) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}
