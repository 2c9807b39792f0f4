package display

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "c1 → n1": "c1 → n1", "日本": "日本", "a\nb\tc": "a b c", "1\u00a0s": "1\u00a0s", "\ufffd": "\ufffd",
		"\x00\r\x1b[31m": `\x00\x0d\x1b[31m`, "\u0085": `\x85`, "\xff": `\xff`, "é\xc3": `é\xc3`,
		"\u202eevil\u2066": `\u202eevil\u2066`, "\u200b\u00ad": `\u200b\xad`, "e\u0301": `e\u0301`, "\U000e0001": `\U000e0001`,
		"12345678": "12345678", "123456789": "12345678…", "日本日本日本日本日": "日本日本日本日本…", "\x00\x00\x00\x00\x00\x00\x00\x00\x00": strings.Repeat(`\x00`, 8) + "…",
	} {
		limit := 20
		if n := utf8.RuneCountInString(in); n == 8 || n == 9 {
			limit = 8
		}
		if got := Sanitize(in, limit); got != want {
			t.Errorf("Sanitize(%q, %d) is %q, want %q", in, limit, got, want)
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		in                   string
		limit                int
		wantBytes, wantChars string
	}{
		{"", 0, "", ""},
		{"ab", 0, "…", ""},
		{"ab", 1, "a…", "…"},
		{"ab", 2, "ab", "ab"},
		{"aéé", 2, "a…", "a…"},
		{"aéé", 3, "aé…", "aéé"},
		{"日本", 2, "…", "日本"},
		{"\x80\x80\x80\x80\x80\x80\x80", 6, "\x80\x80\x80\x80\x80\x80…", "\ufffd\ufffd\ufffd\ufffd\ufffd…"},
	} {
		if got := TruncateBytes(c.in, c.limit); got != c.wantBytes {
			t.Errorf("TruncateBytes(%q, %d) is %q, want %q", c.in, c.limit, got, c.wantBytes)
		}
		if got := Truncate(c.in, c.limit); got != c.wantChars {
			t.Errorf("Truncate(%q, %d) is %q, want %q", c.in, c.limit, got, c.wantChars)
		}
	}
}

func TestSecondsAndDuration(t *testing.T) {
	for _, c := range []struct {
		ns            int64
		instant, span string
	}{
		{0, "0.000 s", "0 s"},
		{8000, "0.000 s", "8 µs"},
		{250_000, "0.000 s", "250 µs"},
		{999_999, "0.001 s", "1 ms"},
		{1_234_567, "0.001 s", "1.235 ms"},
		{250_000_000, "0.250 s", "250 ms"},
		{1_000_000_000, "1.000 s", "1 s"},
		{1_065_499_999, "1.065 s", "1.065 s"},
		{1_065_500_000, "1.066 s", "1.066 s"},
		{-5_010_000_000, "-5.010 s", "-5.01 s"},
		{100e9, "100.000 s", "100 s"},
		{math.MaxInt64, "9223372036.855 s", "9223372036.855 s"},
		{math.MinInt64, "-9223372036.855 s", "-9223372036.855 s"},
	} {
		if got := strings.ReplaceAll(Seconds(c.ns), NoBreak, " "); got != c.instant {
			t.Errorf("Seconds(%d) is %s, want %s", c.ns, got, c.instant)
		}
		if got := strings.ReplaceAll(Duration(c.ns), NoBreak, " "); got != c.span {
			t.Errorf("Duration(%d) is %s, want %s", c.ns, got, c.span)
		}
	}
}

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{1e9, 2e9, "from 1.000 s to 2.000 s"},
		{160_000_000, 160_008_000, "at 0.160 s for 8 µs"},
		{160_000_000, 160_000_000, "at 0.160 s"},
	} {
		if got := strings.ReplaceAll(Interval(c.from, c.to), NoBreak, " "); got != c.want {
			t.Errorf("Interval(%d, %d) is %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestDecimalMatchesRationalArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		ns, digits := r.Int64()>>r.IntN(63), 1+r.IntN(9)
		if r.IntN(2) == 0 {
			ns = -ns
		}
		if got, want := Decimal(ns, digits), big.NewRat(ns, 1e9).FloatString(digits); got != want && got != "-"+want {
			t.Fatalf("Decimal(%d, %d) is %s, want %s", ns, digits, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 999: "999 nodes", 1000: "1,000 nodes", 1234567: "1,234,567 nodes", -1234: "-1,234 nodes", -123: "-123 nodes"} {
		if got := Plural(n, "node"); got != want {
			t.Errorf("Plural(%d) is %q, want %q", n, got, want)
		}
	}
}

func TestListJoinAndFirstLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "n1": "n1", "n1 n2": "n1 and n2", "n1 n2 n3": "n1, n2 and n3"} {
		if got := List(strings.Fields(in)); got != want {
			t.Errorf("List(%s) is %q, want %q", in, got, want)
		}
	}
	if got := Join("; ", "", "a", "", "b", ""); got != "a; b" {
		t.Errorf("Join is %q", got)
	}
	if got := FirstLine("\n a b\nc"); got != "a b" {
		t.Errorf("FirstLine is %q", got)
	}
}
