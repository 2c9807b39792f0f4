package campaign

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"lockpick/harness"
)

// Serve does the jobs that it reads, one JSON line each, and answers each with
// its outcome. It ends with its input; if that happens in the middle of a job,
// it exits at once, since nobody waits for the answer any more.
func ServeWorker(in io.Reader, out io.Writer, backends map[string]harness.Backend) error {
	jobs := make(chan []byte)
	go func() {
		lines := bufio.NewReaderSize(in, 1<<16)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				close(jobs)
				os.Exit(0)
			}
			jobs <- line
		}
	}()
	for line := range jobs {
		var j Job
		if err := json.Unmarshal(line, &j); err != nil {
			return fmt.Errorf("read job: %w", err)
		}
		b, ok := backends[j.Backend]
		if !ok {
			return fmt.Errorf("read job: no backend %q", j.Backend)
		}
		answer, err := json.Marshal(Execute(context.Background(), b, j))
		if err == nil {
			_, err = fmt.Fprintf(out, "%s%s\n", answerMark, answer)
		}
		if err != nil {
			return fmt.Errorf("answer job: %w", err)
		}
	}
	return nil
}
