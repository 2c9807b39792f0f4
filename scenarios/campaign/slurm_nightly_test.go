//go:build nightly && linux

package campaign

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slurmConf configures a cluster of this machine alone.
const slurmConf = `ClusterName=lockpick
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmdPort=%[4]d
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000
JobRequeue=1
ReturnToService=2
MinJobAge=3600
%[5]s NodeAddr=127.0.0.1 State=UNKNOWN
PartitionName=lockpick Nodes=ALL Default=YES MaxTime=60:00 State=UP
`

// startSlurm starts a cluster and returns a function that runs Slurm commands.
func startSlurm(t *testing.T) func(name string, args ...string) string {
	dir := t.TempDir()
	for _, d := range []string{"state", "spool", "keys"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key, conf := make([]byte, 128), filepath.Join(dir, "slurm.conf")
	rand.Read(key)
	if err := os.WriteFile(filepath.Join(dir, "keys", "munge"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(outputOf(t, exec.Command("hostname")), ".")
	host = strings.TrimSpace(host)
	node, _, _ := strings.Cut(outputOf(t, exec.Command("slurmd", "-C")), "\n") // the machine as Slurm detects it
	text := fmt.Sprintf(slurmConf, dir, host, freePort(t), freePort(t), node)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLURM_CONF", conf)
	startServer(t, "munged", "--foreground", "--force", "--key-file", filepath.Join(dir, "keys", "munge"), "--socket", filepath.Join(dir, "munge"),
		"--pid-file", filepath.Join(dir, "munge.pid"), "--log-file", filepath.Join(dir, "munge.log"), "--seed-file", filepath.Join(dir, "munge.seed"))
	waitFor(t, "munged is running", time.Minute, func() bool { _, err := os.Stat(filepath.Join(dir, "munge")); return err == nil })
	startServer(t, "slurmctld", "-D", "-f", conf)
	startServer(t, "slurmd", "-D", "-N", host, "-f", conf)
	logDir := t.TempDir() // for the logs of jobs
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(shortContext(t), name, args...)
		c.Dir = logDir
		return c
	}
	waitFor(t, "a Slurm node is idle", 2*time.Minute, func() bool {
		text, err := command("sinfo", "--noheader", "--format", "%t").Output()
		return err == nil && strings.TrimSpace(string(text)) == "idle"
	})
	t.Cleanup(func() { // before Slurm's servers are stopped
		if text, err := command("scancel", "--user", "root").CombinedOutput(); err != nil {
			t.Errorf("scancel: %v: %s", err, text)
		}
		waitFor(t, "no job is left", 2*time.Minute, func() bool {
			text, err := command("squeue", "--noheader").Output()
			return err == nil && len(text) == 0
		})
	})
	return func(name string, args ...string) string {
		return strings.TrimSpace(outputOf(t, command(name, args...)))
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A sweep runs as an array of eight jobs. One is killed, and Slurm repeats it. Then two shards are
// lost, and submitting the shard numbers that merge prints restores them.
func TestSlurm(t *testing.T) {
	requireRoot(t)
	requirePrograms(t, "apt-get install slurm-wlm munge", "munged", "slurmctld", "slurmd", "sbatch")
	binary, store := buildLockpick(t), t.TempDir()
	run := startSlurm(t)
	t.Setenv("LOCKPICK", binary)
	script, err := filepath.Abs("engines/slurm.sh")
	if err != nil {
		t.Fatal(err)
	}
	submit := func(array string) string {
		return run("sbatch", append([]string{"--parsable", "--array=" + array, script, "8", "--store", store}, sweepArgs()...)...)
	}
	waitUntilOver := func(id string) {
		waitFor(t, "job "+id+" is over", 10*time.Minute, func() bool { return run("squeue", "--noheader", "--jobs", id) == "" })
	}
	id := submit("1-8%2")
	killMidway(t, store, "SLURM_ARRAY_TASK_ID=3")
	thirdJob := id + "_3"
	waitFor(t, "the third job is requeued", 2*time.Minute, func() bool {
		return strings.Contains(run("scontrol", "show", "job", "-o", thirdJob), "Restarts=1")
	})
	// Slurm delays a requeued job by two minutes.
	waitFor(t, "the third job can begin", 3*time.Minute, func() bool {
		exec.Command("scontrol", "update", "jobid="+thirdJob, "starttime=now").Run()
		return run("squeue", "--noheader", "--jobs", thirdJob, "--format", "%r") != "BeginTime"
	})
	waitUntilOver(id)
	checkMerged(t, binary, store)

	for _, k := range []string{"2", "7"} {
		found, err := filepath.Glob(filepath.Join(store, shardFolder, "*-"+k+"-of-8.jsonl"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		if err := os.Remove(found[0]); err != nil {
			t.Fatal(err)
		}
	}
	missing := strings.TrimSpace(outputOf(t, exec.Command(binary, "merge", "--missing", store)))
	if missing != "2,7" {
		t.Fatalf("missing shards are %q", missing)
	}
	waitUntilOver(submit(missing))
	checkMerged(t, binary, store)
}
