package files

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// spinEnv is an environment variable that makes this program spin on a second thread.
const spinEnv = "LOCKPICK_TEST_SPINS"

func init() {
	if os.Getenv(spinEnv) == "" {
		return
	}
	runtime.LockOSThread() // the first thread stays here
	go spin()
	select {}
}

func spin() {
	fmt.Println("spins")
	for n := 0; ; n++ {
		if n < 0 {
			fmt.Println(n)
		}
	}
}

// The stack of a spinning goroutine is printed, whichever thread it runs on.
func TestQuitPrintsBusyGoroutine(t *testing.T) {
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), spinEnv+"=1", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1") // as on a machine that is too busy to preempt it
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := QuitProcess(cmd.Process); err != nil {
			t.Error(err)
			cmd.Process.Kill()
		}
		io.Copy(io.Discard, out)
		cmd.Wait()
		if !strings.Contains(stderr.String(), "files.spin(") {
			t.Fatalf("the spinning goroutine is missing:\n%s", stderr.String())
		}
	}
}
