package edn

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
)

// BenchmarkDoubling reads Jepsen histories that grow in one dimension at a time, and reports the
// time per operation, which should not grow much with the number of operations. On one core of a
// busy machine, in nanoseconds per operation:
//
//	                           40,000   80,000
//	keys, in descending order    6,700    8,800
//	locks held by one process    5,200    5,200
func BenchmarkDoubling(b *testing.B) {
	for name, write := range map[string]func(w *bytes.Buffer, n int){
		"keys": func(w *bytes.Buffer, n int) {
			for i := range n {
				for _, typ := range []string{"invoke", "ok"} {
					fmt.Fprintf(w, "{:type :%s :f :acquire :process %d :key %d}\n", typ, i%3, 1_000_000-i)
				}
			}
		},
		"held": func(w *bytes.Buffer, n int) {
			for _, f := range []string{"acquire", "release"} {
				for range n {
					for _, typ := range []string{"invoke", "ok"} {
						fmt.Fprintf(w, "{:type :%s :f :%s :process 1}\n", typ, f)
					}
				}
			}
		},
	} {
		for _, n := range []int{40_000, 80_000} {
			b.Run(name+"/"+strconv.Itoa(n), func(b *testing.B) {
				var file bytes.Buffer
				write(&file, n)
				operations := bytes.Count(file.Bytes(), []byte{'\n'})
				for b.Loop() {
					if _, _, err := Read(bytes.NewReader(file.Bytes()), NoDeadline); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*operations), "ns/operation")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
