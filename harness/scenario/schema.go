package scenario

import "encoding/json"

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
