package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// environment is one of variables, as in A=1 B=2.
func environment(text string) func(string) string {
	return func(name string) string {
		for v := range strings.FieldsSeq(text) {
			if value, is := strings.CutPrefix(v, name+"="); is {
				return value
			}
		}
		return ""
	}
}

func TestOpen(t *testing.T) {
	for _, x := range []struct{ name, env, want string }{
		{"s3://sweeps", "", "s3://sweeps at https://s3.amazonaws.com"},
		{"s3://sweeps/", "", "s3://sweeps at https://s3.amazonaws.com"},
		{"s3://sweeps/a/b/", "AWS_ENDPOINT_URL=http://127.0.0.1:9000", "s3://sweeps/a/b at http://127.0.0.1:9000"},
		{"s3://sweeps/a", "AWS_ENDPOINT_URL=http://other AWS_ENDPOINT_URL_S3=https://s3.example.org/", "s3://sweeps/a at https://s3.example.org/"},
		{"s3://", "", "error: names no place"},
		{"s3:///a", "", "error: names no place"},
		{"s3://No_Bucket/a", "", "error: names no place"},
		{"s3://sweeps//a", "", "error: names no place"},
		{"s3://sweeps/../a", "", "error: names no place"},
		{"s3://sweeps/a/./b", "", "error: names no place"},
		{"s3://sweeps/" + strings.Repeat("a", 2000), "", "error: names no place"},
		{"s3://sweeps", "AWS_ENDPOINT_URL=127.0.0.1:9000", "error: no address of a server"},
		{"s3://sweeps", "AWS_ENDPOINT_URL=ftp://a", "error: no address of a server"},
		{"s3://sweeps", "AWS_ENDPOINT_URL=http://a/b", "error: no address of a server"},
		{"s3://sweeps", "AWS_ENDPOINT_URL=http://%zz", "error: no address of a server"},
	} {
		p, err := Open(x.name, environment(x.env))
		got := "error: "
		if err != nil {
			got += err.Error()
		} else {
			got = fmt.Sprint(p, " at ", p.server)
		}
		if want, failed := strings.CutPrefix(x.want, "error: "); failed != (err != nil) || !strings.Contains(got, want) {
			t.Errorf("%s with %q: %s, want %s", x.name, x.env, got, x.want)
		}
	}
}

// TestHostileServers: what a server says that is none, or that means harm, is an error with a remedy,
// and nothing is taken for a shard. Of real ones the night's TestBucket tells.
func TestHostileServers(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	const shard = "0123456789ab-1-of-2.jsonl"
	list := func(keys string) string {
		return `<?xml version="1.0"?><ListBucketResult><Name>sweeps</Name><IsTruncated>false</IsTruncated>` + keys + `</ListBucketResult>`
	}
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"no list":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"a page":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>gone</html>", http.StatusGone) },
		"cut in a list": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, list("<Contents><Key>a")) },
		"a shorter object": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, shard) {
				fmt.Fprint(w, "{}")
				return
			}
			fmt.Fprint(w, list("<Contents><Key>"+shard+"</Key><Size>100</Size></Contents>"))
		},
		"a cut object": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, shard) {
				w.Header().Set("Content-Length", "100")
				w.Write([]byte("{}"))
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, list("<Contents><Key>"+shard+"</Key><Size>100</Size></Contents>"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(answer))
			defer server.Close()
			p, err := Open("s3://sweeps", environment("AWS_EC2_METADATA_DISABLED=true AWS_ENDPOINT_URL="+server.URL))
			if err != nil {
				t.Fatal(err)
			}
			found, err := p.Fetch(context.Background(), t.TempDir())
			var of *Error
			if !errors.As(err, &of) || of.Remedy == "" || !strings.Contains(of.What, "s3://sweeps") || found != nil {
				t.Errorf("%v %v", found, err)
			}
		})
	}
}
