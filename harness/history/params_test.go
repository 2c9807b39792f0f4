package history

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every number, count and name in the params is rejected if it is out of range.
func TestParamsAreRangeChecked(t *testing.T) {
	validParams := func() Params {
		return Params{Schema: Schema, Scenario: "s", Variant: "v", Backend: "sim", Seed: 1, Clients: []string{"c1"}, Nodes: []string{"n1"}, Resource: "r1", Quorum: 1,
			Lock: "redlock", TTL: time.Second, Drift: 1, NodeTimeout: 1, RetryMin: 1, RetryMax: 1, Rate: 0.1, TimestampUncertainty: 1, Slack: 1, Rounds: 1, Fence: "none", Limit: 1,
			MaxExtends: 1, MaxHold: 1, Persistence: "none", Steps: []PlannedStep{{Step: 1, Fault: "cut", Targets: []string{"c1"}, Trigger: "at 1s", Delay: 1, Offset: -1, Rate: 1, Proof: &Proof{Targets: []string{TargetNode}, MinOffset: 1, IdleText: "nothing"}}},
			Reach: []Reach{{Client: "c1", Nodes: []string{"n1"}}}, TTLs: []ClientTTL{{Client: "c1", TTL: 1, Drift: 1}}}
	}
	p := validParams()
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	numTried := 0
	var walk func(path string, v reflect.Value, params *Params)
	checkRejected := func(path string, v reflect.Value, params *Params, x any) {
		oldValue := reflect.New(v.Type()).Elem()
		oldValue.Set(v)
		v.Set(reflect.ValueOf(x).Convert(v.Type()))
		numTried++
		if params.check() == nil {
			t.Errorf("%s: %.40q was accepted", path, fmt.Sprint(x))
		}
		v.Set(oldValue)
	}
	walk = func(path string, v reflect.Value, params *Params) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if name == "Schema" || name == "Seed" || name == "Server" { // Schema is checked elsewhere; Seed may have any value; Server is only displayed
					continue
				}
				walk(path+"."+name, v.Field(i), params)
			}
		case reflect.Pointer:
			walk(path, v.Elem(), params)
		case reflect.Slice:
			if path == ".Clients" || path == ".Nodes" || path == ".Steps" || path == ".Reach" || path == ".TTLs" {
				checkRejected(path, v, params, reflect.MakeSlice(v.Type(), maxClients+1, maxClients+1).Interface())
			}
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), params)
			}
		case reflect.String:
			checkRejected(path, v, params, strings.Repeat("x", 1<<20))
		case reflect.Int, reflect.Int64:
			if v.Type() == reflect.TypeFor[time.Duration]() && strings.HasSuffix(path, ".Offset") {
				checkRejected(path, v, params, int64(math.MinInt64))
			} else {
				checkRejected(path, v, params, int64(-1))
			}
			checkRejected(path, v, params, int64(math.MaxInt64))
		case reflect.Float64:
			checkRejected(path, v, params, -1.0)
			checkRejected(path, v, params, math.Inf(1))
			if path == ".Rate" {
				checkRejected(path, v, params, 1.0)
			}
			checkRejected(path, v, params, math.NaN())
		}
	}
	walk("", reflect.ValueOf(&p).Elem(), &p)
	if numTried < 40 {
		t.Errorf("only %d values were tried", numTried)
	}
}

func TestInvalidParamsErrorNamesLine(t *testing.T) {
	p := Params{Schema: Schema, TTL: -1}
	line, err := json.Marshal(Event{N: 1, Process: Harness, Type: Begin, Op: OpRun, Params: &p})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(strings.NewReader(string(line) + "\n")); err == nil || !strings.Contains(err.Error(), "line 1: params: ttl: -1") {
		t.Errorf("got error %v", err)
	}
}
