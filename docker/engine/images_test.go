//go:build linux

package engine

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Pull reports the total progress of all layers and returns the engine's error.
func TestPull(t *testing.T) {
	clearEngineEnv(t)
	answer := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/images/create") && r.Header.Get("X-Registry-Auth") == "" {
			io.WriteString(w, answer)
		}
	}))
	defer server.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+server.Listener.Addr().String())
	e, err := Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	pull := func() (progress string, err error) {
		err = Pull(t.Context(), e, "redis:7", func(done, all int64) { progress += fmt.Sprintf("%d/%d ", done, all) })
		return progress, err
	}
	answer = `{"status":"Pulling from library/redis","id":"7"}
		{"status":"Downloading","id":"a","progressDetail":{"current":1,"total":10}}
		{"status":"Downloading","id":"b","progressDetail":{"current":5,"total":20}}
		{"status":"Downloading","id":"a","progressDetail":{"current":10,"total":10}}
		{"status":"Pull complete","id":"a"}`
	if progress, err := pull(); err != nil || progress != "1/10 6/30 15/30 " {
		t.Errorf("progress is %q, error %v", progress, err)
	}
	answer = `{"error":"unauthorized","errorDetail":{"message":"unauthorized"}}`
	if _, err := pull(); err == nil || err.Error() != "unauthorized" {
		t.Errorf("rejected pull returned %v", err)
	}
	answer = `{"status":"Downl`
	if _, err := pull(); err == nil {
		t.Error("no error for a truncated reply")
	}
}
