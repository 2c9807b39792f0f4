package trace

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"lockpick/checker"
	"lockpick/harness/history/story"
)

var update = flag.Bool("update", false, "write the golden file anew")

const told = `params clients=c1,c2 nodes=n1 ttl=10s
0 c1 begin client
0 c2 begin client
1 c1 invoke acquire session=c1/1
1.5 c1-n1 ok set token=a
2 c1 ok acquire session=c1/1 until=12
3 nemesis begin pause node=c1 step=1
4 nemesis begin cut node=c1-n1 step=2
5 nemesis end cut node=c1-n1 step=2
11 c2 invoke acquire session=c2/1
11.5 c2 ok acquire session=c2/1 until=23
18 nemesis end pause node=c1 step=1
19 c1 invoke release session=c1/1
20 c1 info release session=c1/1 cause=<script>"é"
21 nemesis begin kill node=n1 step=3
22 c2 invoke extend session=c2/1
26 harness end run
`

func TestGolden(t *testing.T) {
	h, err := story.Parse(told)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	v := checker.Verdict{Results: []checker.Result{{Property: checker.MutualExclusion, Outcome: checker.Violated, Because: "both",
		Witness: &checker.Witness{Events: []int64{5, 10}, From: 11_500_000_000, To: 12_000_000_000}}}}
	if err := Write(&b, h, v); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/paused.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/paused.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("got:\n%s", b.String())
	}
	if !json.Valid(b.Bytes()) {
		t.Error("it is no JSON")
	}
}
