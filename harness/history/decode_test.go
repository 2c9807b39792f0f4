package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// checkDecoder checks that the codec and encoding/json agree on a line, and reports whether the
// line is plain.
func checkDecoder(t testing.TB, d *codec, line []byte) bool {
	t.Helper()
	want, wantErr := decode(line)
	var got Event
	buffer := bytes.Clone(line)
	err := d.decode(buffer, &got)
	for i := range buffer {
		buffer[i] = 'x' // events must not share the line's memory
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
		t.Errorf("%q:\ngot  %+v, %v\nwant %+v, %v", line, got, err, want, wantErr)
	}
	var e Event
	isPlain := d.decodePlain(line, &e)
	if isPlain && wantErr != nil {
		t.Errorf("%q was accepted as plain, want %v", line, wantErr)
	}
	return isPlain
}

func TestRecordedLinesArePlain(t *testing.T) {
	d := codec{strings: newInterner()}
	lines, err := readAll(&generatedHistory{cycles: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] { // the first has params
		if !checkDecoder(t, &d, line) {
			t.Errorf("%q isn't plain", line)
		}
	}
	// Test each field separately, with extreme values.
	for i := range reflect.TypeFor[Event]().NumField() {
		for _, n := range []int64{-1<<63 + 1, -1, 1, 2, 1<<63 - 1} {
			e, fullEvent := Event{N: 1, Process: "c1", Type: OK, Op: OpRead}, hostileEvent("~ /<'", n)
			fullEvent.Params = nil
			reflect.ValueOf(&e).Elem().Field(i).Set(reflect.ValueOf(fullEvent).Field(i))
			line, _ := appendLine(nil, &e)
			line = bytes.ReplaceAll(line, []byte(`\u003c`), []byte("<"))
			if plain := checkDecoder(t, &d, line); plain != (e.N > 0) {
				t.Errorf("%q: plain is %t", line, plain)
			}
		}
	}
}

func readAll(g *generatedHistory) ([][]byte, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(g)
	return bytes.SplitAfter(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte("\n")), err
}

// unusualLines contains lines that recorders write rarely or never.
var unusualLines = []string{
	``, "\n", "\r\n", ` `, `{}`, `[]`, `null`, `1`, `"x"`, `{`, `nonsense`, "\xef\xbb\xbf" + plainLine, "\x00",
	plainLine + "\n", plainLine + "\r\n", plainLine + "\n\n", plainLine + " ", " " + plainLine, plainLine + plainLine, plainLine + "}", plainLine + ",",
	strings.ReplaceAll(plainLine, `":`, `": `), strings.ReplaceAll(plainLine, `,`, ", "), plainLine[:len(plainLine)-1] + ",}",
	replaceInPlain(`"t":5`, ``), replaceInPlain(`"t":5`, `"T":6`), replaceInPlain(`"t":5`, `"t":5,"t":6`), replaceInPlain(`"t":5`, `"t":null`), replaceInPlain(`"t":5`, `"t":"5"`),
	replaceInPlain(`"t":5`, `"t":-5`), replaceInPlain(`"t":5`, `"t":-`), replaceInPlain(`"t":5`, `"t":+5`), replaceInPlain(`"t":5`, `"t":05`), replaceInPlain(`"t":5`, `"t":-05`), replaceInPlain(`"t":5`, `"t":-0`), replaceInPlain(`"t":5`, `"t":00`),
	replaceInPlain(`"t":5`, `"t":5.0`), replaceInPlain(`"t":5`, `"t":5.5`), replaceInPlain(`"t":5`, `"t":5e3`), replaceInPlain(`"t":5`, `"t":1e30`), replaceInPlain(`"t":5`, `"t":`), replaceInPlain(`"t":5`, `"t":0x5`), replaceInPlain(`"t":5`, `"t":5 `),
	replaceInPlain(`"t":5`, `"t":9223372036854775807`), replaceInPlain(`"t":5`, `"t":9223372036854775808`), replaceInPlain(`"t":5`, `"t":-9223372036854775808`), replaceInPlain(`"t":5`, `"t":-9223372036854775809`),
	replaceInPlain(`"t":5`, `"t":9999999999999999999`), replaceInPlain(`"t":5`, `"t":18446744073709551616`), replaceInPlain(`"t":5`, `"t":18446744073709551621`), replaceInPlain(`"t":5`, `"t":100000000000000000000000005`),
	replaceInPlain(`"c1"`, `""`), replaceInPlain(`"c1"`, `"c\u0031"`), replaceInPlain(`"c1"`, `"c\"1"`), replaceInPlain(`"c1"`, `"c\\"`), replaceInPlain(`"c1"`, `"c\x"`), replaceInPlain(`"c1"`, `"ü"`), replaceInPlain(`"c1"`, "\"\xff\""),
	replaceInPlain(`"c1"`, "\"a\tb\""), replaceInPlain(`"c1"`, "\"a\nb\""), replaceInPlain(`"c1"`, "\"\x7f\""), replaceInPlain(`"c1"`, `"<&>"`), replaceInPlain(`"c1"`, `c1`), replaceInPlain(`"c1"`, `"c1`), replaceInPlain(`"k"}`, `"k}`), replaceInPlain(`"k"}`, `"}`), replaceInPlain(`"c1"`, `1`), replaceInPlain(`"c1"`, `null`),
	replaceInPlain(`"ok"`, `"OK"`), replaceInPlain(`"ok"`, `""`), replaceInPlain(`"ok"`, `"begin"`), replaceInPlain(`"read"`, `""`), replaceInPlain(`"n":7`, `"n":0`), replaceInPlain(`"n":7`, `"n":-7`), replaceInPlain(`"n":7`, `"n":7.5`),
	replaceInPlain(`,"key":"k"`, `,"Key":"k"`), replaceInPlain(`,"key":"k"`, `,"key":""`), replaceInPlain(`,"key":"k"`, `,"key":"k","key":"l"`), replaceInPlain(`,"key":"k"`, `,"colour":"k"`), replaceInPlain(`,"key":"k"`, `,"key"="k"`),
	replaceInPlain(`,"key":"k"`, `,"key":"k","fence":0`), replaceInPlain(`,"key":"k"`, `,"fence":1,"key":"k"`), replaceInPlain(`,"key":"k"`, `,"step":3`), replaceInPlain(`,"key":"k"`, `,"step":9223372036854775807`),
	replaceInPlain(`,"key":"k"`, `,"params":null`), replaceInPlain(`,"key":"k"`, `,"params":{}`), replaceInPlain(`,"key":"k"`, `,"params":{"schema":1,"rate":0.5}`), replaceInPlain(`,"key":"k"`, `,"params":{"colour":1}`),
}

const plainLine = `{"n":7,"t":5,"process":"c1","type":"ok","op":"read","key":"k"}`

func replaceInPlain(old, text string) string { return strings.Replace(plainLine, old, text, 1) }

func TestDecoderAgreesWithJSON(t *testing.T) {
	d := codec{strings: newInterner()}
	for _, line := range unusualLines {
		checkDecoder(t, &d, []byte(line))
	}
	for i := range len(plainLine) {
		checkDecoder(t, &d, []byte(plainLine[:i]))
	}
}

// A few bytes of each line are changed, removed, duplicated or inserted.
func TestDecoderAgreesWithJSONOnMutatedLines(t *testing.T) {
	d := codec{strings: newInterner()}
	rnd := rand.New(rand.NewPCG(1, 2))
	lines, _ := readAll(&generatedHistory{cycles: 20})
	for _, line := range unusualLines {
		lines = append(lines, []byte(line))
	}
	const fragments = `"",,::{}[]\-.0123456789eE ntul` + "\n\r\t\x00\xff"
	numPlain, n := 0, 50_000
	for range n {
		line := bytes.Clone(lines[rnd.IntN(len(lines))])
		for range 1 + rnd.IntN(3) {
			if len(line) == 0 {
				break
			}
			i, j := rnd.IntN(len(line)), rnd.IntN(len(line))
			i, j = min(i, j), max(i, j)
			switch rnd.IntN(5) {
			case 0:
				line[i] = fragments[rnd.IntN(len(fragments))]
			case 1:
				line = append(line[:i], line[i+1:]...)
			case 2:
				line = append(line[:i:i], append([]byte{fragments[rnd.IntN(len(fragments))]}, line[i:]...)...)
			case 3: // duplicate a part
				line = append(line[:j:j], line[i:]...)
			case 4: // flip a letter's case
				line[i] ^= 0x20
			}
		}
		if checkDecoder(t, &d, line) {
			numPlain++
		}
	}
	if numPlain < n/20 || numPlain > n/2 {
		t.Errorf("%d of %d lines were plain, so the comparison shows little", numPlain, n)
	}
}

func FuzzDecode(f *testing.F) {
	lines, _ := readAll(&generatedHistory{cycles: 1})
	for _, line := range lines {
		f.Add(line)
	}
	for _, line := range unusualLines {
		f.Add([]byte(line))
	}
	d := codec{strings: newInterner()}
	f.Fuzz(func(t *testing.T, line []byte) { checkDecoder(t, &d, line) })
}

// Even lines decoded by encoding/json share their strings.
func TestUnusualLinesShareStrings(t *testing.T) {
	d := codec{strings: newInterner()}
	var a, b Event
	for line, e := range map[string]*Event{plainLine: &a, replaceInPlain(`"t":5`, `"t": 5`): &b} {
		if err := d.decode([]byte(strings.ReplaceAll(line, `"k"`, `"lock-1"`)), e); err != nil {
			t.Fatal(err)
		}
	}
	if a != b || unsafe.StringData(a.Key) != unsafe.StringData(b.Key) {
		t.Errorf("%+v and %+v do not share strings", a, b)
	}
}

// The interner's table does not grow, whatever a file contains, and repeated strings share memory.
func TestRecentStringsAreInterned(t *testing.T) {
	s := newInterner()
	const n = 5 * internSlots
	for i := range n {
		b := fmt.Appendf(nil, "token %d", i)
		if got := s.internBytes(b); got != string(b) || s.intern(got) != got {
			t.Fatalf("%q was interned as %q", b, got)
		}
	}
	if len(s.slots) != internSlots {
		t.Errorf("the table has %d slots", len(s.slots))
	}
	b := []byte("token 7")
	if n := testing.AllocsPerRun(100, func() { s.internBytes(b) }); n > 0 {
		t.Errorf("%v allocations for an interned string", n)
	}
	for _, c := range []string{"", "invoke", "ok", "release", "log"} {
		if s.internBytes([]byte(c)) != c {
			t.Errorf("%q was interned as another string", c)
		}
	}
}

// Lines of life events are plain. Each field of Life is tested separately, with extreme values.
func TestLifeEventsArePlain(t *testing.T) {
	d := codec{strings: newInterner()}
	for i := range reflect.TypeFor[Life]().NumField() {
		for _, n := range []int64{-1<<63 + 1, -1, 2, 1<<63 - 1} {
			var l, fullLife Life
			fillFields(reflect.ValueOf(&fullLife).Elem(), "~ /", n)
			reflect.ValueOf(&l).Elem().Field(i).Set(reflect.ValueOf(fullLife).Field(i))
			e := Event{N: 1, Process: "n1", Type: Info, Op: OpLife, Life: &l}
			checkLine(t, e)
			line, _ := appendLine(nil, &e)
			if !checkDecoder(t, &d, line) {
				t.Errorf("%q isn't plain", line)
			}
		}
	}
	if _, err := decode([]byte(`{"n":1,"t":0,"process":"n1","type":"info","op":"life"}`)); err == nil {
		t.Error(`an event with op "life" but no life field was accepted`)
	}
}
