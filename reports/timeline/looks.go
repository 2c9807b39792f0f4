package timeline

// looks is what each kind of item is, in words and where there is no room for them.
var looks = map[string]Kind{
	"fault":     {Words: "fault in force"},
	"fault-try": {Words: "fault being injected"},
	"fault-at":  {Glyph: "◆", Words: "fault, at one instant"},
	"fault-no":  {Glyph: "✗", Words: "fault that could not be injected, seen or healed"},
	"overlap":   {Glyph: "2", Words: "more than one client believes that it holds the lock"},

	"acquire-ok":   {Glyph: "A", Words: "acquire: got the lock"},
	"acquire-fail": {Glyph: "✗", Words: "acquire: did not get the lock"},
	"acquire-info": {Glyph: "?", Words: "acquire: outcome unknown"},
	"read-ok":      {Glyph: "R", Words: "read from the resource"},
	"read-fail":    {Glyph: "R", Words: "read that failed"},
	"read-info":    {Glyph: "?", Words: "read without an answer"},
	"check-ok":     {Glyph: "C", Words: "check of its own deadline: still valid"},
	"check-fail":   {Glyph: "C", Words: "check of its own deadline: too late, so it does not write"},
	"write-ok":     {Glyph: "W", Words: "write to the resource: applied"},
	"write-fail":   {Glyph: "W", Words: "write to the resource: refused"},
	"write-info":   {Glyph: "?", Words: "write without an answer"},
	"extend-ok":    {Glyph: "E", Words: "extend: got more time"},
	"extend-fail":  {Glyph: "E", Words: "extend: refused"},
	"extend-info":  {Glyph: "?", Words: "extend: outcome unknown"},
	"release-ok":   {Glyph: "L", Words: "release: let the lock go"},
	"release-fail": {Glyph: "L", Words: "release: it did not hold the lock any more"},
	"release-info": {Glyph: "?", Words: "release: outcome unknown"},
	"other":        {Glyph: "·", Words: "operation"},

	"belief": {Words: "believes that it holds the lock"},
	"paused": {Words: "paused"},
	"down":   {Words: "down"},
	"death":  {Glyph: "✝", Words: "killed, for good"},
	"clock":  {Words: "its clock is wrong"},

	"lease":       {Words: "has the key, until its time to live is over by the node's clock, or until it is deleted"},
	"lease-early": {Words: "has the key, and loses it before its time to live is over"},
	"lost":        {Glyph: "!", Words: "the key is gone early"},
	"many":        {Words: "folded: many, one after the other"},

	"accepted": {Glyph: "●", Words: "write accepted by the resource"},
	"refused":  {Glyph: "✗", Words: "write refused by the resource"},
	"harm":     {Glyph: "●", Words: "write accepted by the resource: part of the harm"},
}
